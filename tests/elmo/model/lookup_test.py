import pytest
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model.encoders import Lookup, sorted_ids

ENTRIES = ["c", "a", "d"]
IDS = torch.tensor([70, -5, 30])


def test_ids_and_their_rows():
    lookup = Lookup(number=3)
    known, rows = sorted_ids(IDS, ENTRIES, where="the list")
    lookup.load_state_dict({"known": known, "rows": rows, "unknown": torch.tensor(1)})
    ids = torch.tensor([[30, 70, -5], [-6, 31, 71]], dtype=torch.int32)
    assert lookup(ids).tolist() == [[2, 0, 1], [1, 1, 1]]


def test_a_lookup_that_knows_nothing_yet():
    assert Lookup(number=3)(torch.tensor([[1, 300]])).tolist() == [[0, 0]]


def test_two_entries_with_one_id():
    with pytest.raises(ElmoError, match="'c' and 'd' in the list have the same id"):
        sorted_ids(torch.tensor([7, -5, 7]), ENTRIES, where="the list")
