import pytest
import torch

from elmo_tasks.elmo.inference.unique_rows import unique_rows
from elmo_tasks.elmo.model import words


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
