import torch

from elmo_tasks.modules.text_tensors import choose_texts, stack_texts


def test_pads_whatever_is_shorter():
    one = {
        "words": {"tokens": torch.tensor([[1, 2]])},
        "letters": {"ids": torch.ones(1, 2, 3, dtype=torch.int16)},
    }
    other = {"words": {"tokens": torch.tensor([[3], [4]])}, "letters": {"ids": torch.ones(2, 1, 4).short()}}
    stacked = stack_texts(one, other)
    assert stacked["words"]["tokens"].tolist() == [[1, 2], [3, 0], [4, 0]]
    letters = stacked["letters"]["ids"]
    assert letters.dtype == torch.int16
    assert letters.sum(dim=2).tolist() == [[3, 3], [4, 0], [4, 0]]
    assert letters[0, :, 3].eq(0).all()


def test_chosen_rows():
    tokens = {"tokens": {"tokens": torch.arange(6).view(3, 2)}, "elmo": {"ids": torch.zeros(3, 2, 50)}}
    chosen = choose_texts(tokens, torch.tensor([2, 0]))
    assert chosen["tokens"]["tokens"].tolist() == [[4, 5], [0, 1]]
    assert chosen["elmo"]["ids"].shape == (2, 2, 50)
