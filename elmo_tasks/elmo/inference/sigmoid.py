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


def sigmoid(inputs: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """
    With gradients, and on other devices, as `torch.sigmoid`.

    *Shape:* `(..., width)` to the same; `out` may be `inputs`.
    """
    if inputs.requires_grad or not inputs.is_cpu:
        return torch.sigmoid(inputs, out=out)
    width = inputs.size(-1)
    if filling := -width % VECTOR_WIDTH:
        cut = sigmoid(F.pad(inputs, (0, filling)))[..., :width]
        return cut.contiguous() if out is None else out.copy_(cut)
    if out is None:
        out = torch.empty_like(inputs)
    whole = _in_whole_vectors(inputs.numel())
    values, results = inputs.view(-1), out.view(-1)
    for part in (slice(whole), slice(whole, None)):
        torch.sigmoid(values[part], out=results[part])
    return out


def _in_whole_vectors(values: int) -> int:
    """How many of the values, a multiple of `VECTOR_WIDTH`, threads can share in whole vectors."""
    threads = min(torch.get_num_threads(), -(-values // FEWEST_OF_A_THREAD))
    if threads < 2:
        return values
    # With fewer than this there is one thread fewer, and each has as few as it may.
    fewest = (threads - 1) * FEWEST_OF_A_THREAD
    return max(values - values % (threads * VECTOR_WIDTH), fewest)
