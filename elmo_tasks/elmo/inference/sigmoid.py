"""The sigmoid of rows, rounded alike in whatever batch a row comes, and by however many threads."""

import torch
from torch.nn import functional as F

VECTOR_WIDTH = 32
"""
PyTorch computes so many values at a time, and rounds those that are left over, at the end of what it gives to
a thread, in another way.
"""
FEWEST_OF_A_THREAD = 1 << 15
"""PyTorch gives a thread at least so many values; with more, to all threads equally many."""


def sigmoid(inputs: torch.Tensor, *, in_place: bool = False) -> torch.Tensor:
    """
    With gradients, and on other devices, as `torch.sigmoid`.

    *Shape:* `(..., width)` to the same.
    """
    plain = inputs.requires_grad or not inputs.is_cpu
    if not plain and (filling := -inputs.size(-1) % VECTOR_WIDTH):
        cut = sigmoid(F.pad(inputs, (0, filling)), in_place=True)[..., :-filling]
        return inputs.copy_(cut) if in_place else cut.contiguous()
    whole = inputs.numel() if plain else _in_whole_vectors(inputs.numel())
    if whole == inputs.numel():
        return inputs.sigmoid_() if in_place else inputs.sigmoid()
    results = inputs if in_place else torch.empty_like(inputs)
    for part in (slice(whole), slice(whole, None)):
        torch.sigmoid(inputs.view(-1)[part], out=results.view(-1)[part])
    return results


def _in_whole_vectors(values: int) -> int:
    """How many of the values, a multiple of `VECTOR_WIDTH`, threads can share in whole vectors."""
    threads = -(-values // FEWEST_OF_A_THREAD)
    if threads == 1 or (threads := min(torch.get_num_threads(), threads)) == 1:
        return values
    # With fewer than this there is one thread fewer, and each has as few as it may.
    fewest = (threads - 1) * FEWEST_OF_A_THREAD
    return max(values - values % (threads * VECTOR_WIDTH), fewest)
