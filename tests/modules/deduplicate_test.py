import torch

from elmo_tasks.modules.deduplicate import distinct_members, text_of


def test_each_group_once():
    groups = torch.tensor([7, -3, 7, 5, -3])
    rows, places = distinct_members(groups)
    assert sorted(groups[rows].tolist()) == [-3, 5, 7]
    assert torch.equal(groups[rows][places], groups)


def test_text_of_some_rows():
    tokens = {"tokens": {"tokens": torch.arange(6).view(3, 2)}, "elmo": {"ids": torch.zeros(3, 2, 50)}}
    found = text_of(torch.tensor([2, 0]), tokens)
    assert found["tokens"]["tokens"].tolist() == [[4, 5], [0, 1]]
    assert found["elmo"]["ids"].shape == (2, 2, 50)
