import pytest
import torch

from elmo_tasks.squad.model import Windows

SIZE, OVERLAP = 10, 4


def mask_of(*lengths) -> torch.Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def make(*lengths) -> Windows:
    return Windows(mask_of(*lengths), size=SIZE, overlap=OVERLAP)


@pytest.mark.parametrize("length", [1, 9, 10, 11, 15, 16, 17, 40])
def test_a_token_counts_where_it_has_the_most_context(length):
    windows = make(length)
    tokens = torch.arange(length).unsqueeze(0)
    split = windows.split(tokens + 1)
    # All tokens, each window with an overlap of the one before it
    assert set(split.flatten().tolist()) - {0} == set(range(1, length + 1))
    assert split.shape == (1, windows.number, windows.size)
    assert (windows.number == 1) == (length <= SIZE)
    assert torch.equal(windows.join(split, torch.tensor([0])), tokens + 1)

    def context(window: int, token: int) -> int:
        """The tokens to the nearer end of the window that is not one of the passage."""
        start, end = window * (SIZE - OVERLAP), window * (SIZE - OVERLAP) + SIZE
        if not start <= token < end:
            return -1
        before = token - start if start > 0 else length
        after = end - 1 - token if end < length else length
        return min(before, after)

    for token in range(length):
        contexts = [context(window, token) for window in range(windows.number)]
        chosen = windows.of_token[0, token].item()
        assert contexts[chosen] >= max(contexts) - 1
        assert windows.first[0, token] == chosen * (SIZE - OVERLAP) * (windows.number > 1)


def test_a_passage_has_its_windows_in_any_company():
    lengths = (9, 11, 27, 16)
    together = make(*lengths)
    for row, length in enumerate(lengths):
        alone = make(length)
        assert torch.equal(together.of_token[row, :length], alone.of_token[0])
        assert torch.equal(together.first[row, :length], alone.first[0])


def test_features_and_rows():
    mask = mask_of(13, 8)
    values = torch.randn(2, 13, 3) * mask.unsqueeze(2)
    windows = Windows(mask, size=SIZE, overlap=OVERLAP)
    passages = torch.tensor([1, 0, 1])
    rows = windows.split(values)[passages]
    assert rows.shape == (3, 2, SIZE, 3)
    real = mask[passages]
    assert torch.equal(windows.join(rows, passages)[real], values[passages][real])
    assert windows.split(mask)[0, 1].sum() == 13 - (SIZE - OVERLAP)
    assert not windows.split(mask)[1, 1, 2:].any()
