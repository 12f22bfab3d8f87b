"""Attention between the tokens of two sequences, or of one with itself. Padding has no part in it."""

import torch
from allennlp.nn.util import masked_softmax


def attention(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """
    The softmax over the last dimension of what the mask allows, 0 elsewhere; a row that it allows nothing of
    is 0.

    AllenNLP's default softmax counts padding as scores of 0, and takes it out afterwards: where all real
    scores are far below 0, what is left depends on the padding, and at last is nothing.

    *Shape:* `(..., keys)`, `mask` (booleans) of a shape that broadcasts to it, of as many dimensions.
    """
    return masked_softmax(scores, mask, memory_efficient=True) * mask


def dot_products(left: torch.Tensor, right: torch.Tensor, *, scaled: bool) -> torch.Tensor:
    """
    Each left vector with each right one; with `scaled`, divided by the root of their size (Vaswani et al.
    2017, arXiv:1706.03762). Vectors as long as ELMo's have products so far apart that unscaled all attention
    is on the largest: in a sentence with itself, on the word itself.

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
    Attention both ways by `dot_products`: for each left token a distribution over the right ones, and the
    other way round. What a side finds in the other is `attention @ other`.

    Source: Chen et al. 2017, arXiv:1609.06038, equations (11) to (13); with `left` and `right` the same,
    McCann et al. 2017, arXiv:1708.00107, section 5.

    *Shape:* `(batch, left, dim)`, `(batch, right, dim)`, masks `(batch, left)`, `(batch, right)` to
    `(batch, left, right)` and `(batch, right, left)`; the rows and the columns of padding are 0.
    """
    # (batch, left, right)
    scores = dot_products(left, right, scaled=scaled)
    # (batch, left, right)
    mask = left_mask.unsqueeze(2) & right_mask.unsqueeze(1)
    return attention(scores, mask), attention(scores.mT, mask.mT)
