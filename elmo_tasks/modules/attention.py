"""Attention between the tokens of two sequences, or of one with itself. Padding has no part in it."""

import torch
from allennlp.nn.util import masked_softmax


def attention(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """
    Returns the softmax over the keys that the mask allows; other keys have 0, and so has a row without any.

    AllenNLP's default softmax scores padding as 0 and removes it afterwards: where all real scores are far
    below 0, the result depends on the padding, and vanishes in the end.

    *Shape:* `(..., keys)`, `mask` (booleans) of a shape that broadcasts to it, of as many dimensions.
    """
    return masked_softmax(scores, mask, memory_efficient=True) * mask


def dot_products(left: torch.Tensor, right: torch.Tensor, *, scaled: bool) -> torch.Tensor:
    """
    Returns the product of each left vector with each right one, if `scaled` divided by the square root of
    their size (Vaswani et al. 2017, arXiv:1706.03762). The products of vectors as long as ELMo's differ so
    much that without the division all attention goes to the largest: within a sentence, to the word itself.

    *Shape:* `(batch, left, dim)`, `(batch, right, dim)` to `(batch, left, right)`.
    """
    products = left @ right.mT
    return products / left.size(2) ** 0.5 if scaled else products


def align(
    left: torch.Tensor,
    right: torch.Tensor,
    left_mask: torch.Tensor,
    right_mask: torch.Tensor,
    *,
    scaled: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Returns the attention of each left token to the right ones, by `dot_products`, and the other way round.

    Source: Chen et al. 2017, arXiv:1609.06038, equations (11) to (13).

    *Shape:* `(batch, left, dim)`, `(batch, right, dim)`, masks `(batch, left)`, `(batch, right)` to
    `(batch, left, right)` and `(batch, right, left)`; the rows and the columns of padding are 0.
    """
    # (batch, left, right)
    scores = dot_products(left, right, scaled=scaled)
    # (batch, left, right)
    mask = left_mask.unsqueeze(2) & right_mask.unsqueeze(1)
    return attention(scores, mask), attention(scores.mT, mask.mT)
