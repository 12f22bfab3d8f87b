import torch

from elmo_tasks.modules.deduplicate import text_of


def test_text_of_some_rows():
    tokens = {"tokens": {"tokens": torch.arange(6).view(3, 2)}, "elmo": {"ids": torch.zeros(3, 2, 50)}}
    found = text_of(torch.tensor([2, 0]), tokens)
    assert found["tokens"]["tokens"].tolist() == [[4, 5], [0, 1]]
    assert found["elmo"]["ids"].shape == (2, 2, 50)
