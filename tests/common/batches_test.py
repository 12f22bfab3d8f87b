import pytest
import torch

from elmo_tasks.common import batches as module
from elmo_tasks.common.batches import batch_sizes, batches, unique_rows


def test_as_many_as_fit_padding_included():
    expected = [["a", "bb"], ["c"], ["dddd"], ["eeeee"], ["", "f"]]
    assert list(batches(["a", "bb", "c", "dddd", "eeeee", "", "f"], len, 4)) == expected
    assert list(batches([], len, 4)) == []


def test_without_padding():
    assert list(batch_sizes([1, 1, 2, 9, 9, 4, 5], 9, padded=False)) == [3, 1, 1, 2]


def test_none_is_much_shorter_than_the_longest():
    lengths = [50, 40, 26, 24, 7, 6, 3, 2, 1]
    assert list(batch_sizes(lengths, 4096, min_ratio=0.5)) == [3, 1, 2, 2, 1]


@pytest.mark.parametrize("dtype", [torch.int16, torch.int64])
@pytest.mark.parametrize("rows", [1, 7, 500])
def test_finds_what_unique_finds(rows, dtype):
    ids = torch.randint(3, (rows, 5), dtype=dtype, generator=torch.Generator().manual_seed(rows))
    found, index = unique_rows(ids)
    assert torch.equal(found[index], ids)
    assert sorted(found.tolist()) == ids.unique(dim=0).tolist()


def test_rows_that_share_a_key_are_told_apart(monkeypatch):
    monkeypatch.setattr(module, "row_keys", lambda rows: rows.long().sum(dim=1))
    ids = torch.tensor([[1, 2], [2, 1], [1, 2], [3, 0]])
    found, index = unique_rows(ids)
    assert torch.equal(found[index], ids)
    assert len(found) == 3
