import pytest
import torch
from torch.nn import functional as F

from elmo_tasks.elmo.inference.trained_bilm import WINDOWS_AT_ONCE, TrainedFilters, WordBlock
from elmo_tasks.elmo.inference.training_products import Products

CHARACTERS, DIM, FILTERS, WIDEST = 20, 3, 8, 4


def weights() -> list[torch.Tensor]:
    """Vectors of characters, filters and their biases."""
    torch.manual_seed(1)
    shapes = (CHARACTERS, DIM), (FILTERS, WIDEST * DIM), (FILTERS,)
    return [torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes]


def part(words: int, windows: int, *, with_missing: bool) -> WordBlock:
    """The first filters have no window but the first."""
    ids = torch.randint(CHARACTERS, (words, windows + WIDEST - 1), dtype=torch.int)
    missing = torch.zeros(windows, FILTERS, dtype=torch.bool)
    missing[1:, :3] = True
    return WordBlock(ids, missing if with_missing else None)


def maxima(words: WordBlock, embedding, weight, bias) -> torch.Tensor:
    """As autograd would have it."""
    by_window = F.embedding(words.ids, embedding).unfold(1, WIDEST, 1).transpose(2, 3).flatten(2)
    found = by_window @ weight.T + bias
    return (found if words.missing is None else found.masked_fill(words.missing, -torch.inf)).amax(dim=1)


@pytest.mark.parametrize(
    "sizes", [[(1, 1)], [(5, 2), (3, 7)], [(WINDOWS_AT_ONCE, 1), (WINDOWS_AT_ONCE // 8, 8), (1, 50)]]
)
@pytest.mark.parametrize("with_missing", [False, True])
def test_equals_autograd(sizes, with_missing):
    parts = [part(*size, with_missing=with_missing) for size in sizes]
    ours, plain = weights(), weights()
    found = TrainedFilters.apply(Products("float32"), parts, *ours)
    expected = torch.cat([maxima(each, *plain) for each in parts])
    torch.testing.assert_close(found, expected)
    of_maxima = torch.randn_like(found)
    gradients = (
        torch.autograd.grad(maxima, leaves, of_maxima)
        for maxima, leaves in ((found, ours), (expected, plain))
    )
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_windows_that_are_equally_high_share_the_gradient():
    embedding, weight, bias = weights()
    words = WordBlock(torch.full((1, 6), 7, dtype=torch.int), None)
    TrainedFilters.apply(Products("float32"), [words], embedding, weight, bias).sum().backward()
    expected = torch.zeros_like(embedding)
    expected[7] = weight.detach().view(FILTERS, WIDEST, DIM).sum(dim=(0, 1))
    torch.testing.assert_close(embedding.grad, expected)
