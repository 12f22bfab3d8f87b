import pytest
import torch

from elmo_tasks.common import batches as words
from elmo_tasks.common.batches import one_of_each, unique_rows


def test_each_group_once():
    groups = torch.tensor([7, -3, 7, 5, -3])
    rows, places = one_of_each(groups)
    assert sorted(groups[rows].tolist()) == [-3, 5, 7]
    assert torch.equal(groups[rows][places], groups)


@pytest.mark.parametrize("dtype", [torch.int16, torch.int64])
@pytest.mark.parametrize("rows", [1, 7, 500])
def test_finds_what_unique_finds(rows, dtype):
    ids = torch.randint(3, (rows, 5), dtype=dtype, generator=torch.Generator().manual_seed(rows))
    found, index = unique_rows(ids)
    assert torch.equal(found[index], ids)
    assert sorted(found.tolist()) == ids.unique(dim=0).tolist()


def test_rows_that_share_a_key_are_told_apart(monkeypatch):
    monkeypatch.setattr(words, "_powers", lambda columns: torch.ones(columns, dtype=torch.long))
    ids = torch.tensor([[1, 2], [2, 1], [1, 2], [3, 0]])
    found, index = unique_rows(ids)
    assert torch.equal(found[index], ids)
    assert len(found) == 3
