"""
The character CNN with gradients. Each filter yields the maximum over a word's windows.

Autograd would keep the values of all filters at all windows, and go over them several times. Here some
windows at a time are computed while they are in the processor's cache, and only the places
of the maxima are kept.
"""

from typing import Any, NamedTuple

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from elmo_tasks.elmo.inference.character_cnn import (
    WINDOWS_AT_ONCE,
    CharacterCnn,
    Rows,
    blocks_of_like_length,
    joined_filters,
)
from elmo_tasks.elmo.inference.training_products import (
    BufferLease,
    Product,
    Products,
    product,
    weight_gradient,
)
from elmo_tasks.elmo.model.characters import shortened
from elmo_tasks.elmo.model.encoders import CharacterEncoder


class WordBlock(NamedTuple):
    """Some words of about the same length."""

    ids: torch.Tensor
    """`(words, windows + widest - 1)`: of the characters; `words * windows` is at most `WINDOWS_AT_ONCE`."""
    missing: torch.Tensor | None
    """`(windows, filters)`: where a filter has no window; `None` where each has all."""


class TrainedFilters(Function):
    """
    `apply(products, parts, embedding, weight, bias)`: the `WordBlock` of each part, the vectors of the
    characters `(characters, dim)`, and the filters, all as wide as the widest, `(filters, widest * dim)`
    and `(filters,)`; to the maxima, `(words, filters)`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        products: Products,
        parts: list[WordBlock],
        embedding: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
    ) -> torch.Tensor:
        dtype, loan, rows = (
            products.dtype(embedding),
            BufferLease(products.buffers),
            len(parts) * WINDOWS_AT_ONCE,
        )
        rounded_embedding, rounded_weight, rounded_bias = (x.to(dtype) for x in (embedding, weight, bias))
        # What the filters see, and where each is highest: (parts * windows, ...)
        seen = loan.empty(embedding, rows, weight.size(1), dtype=dtype)
        highest = loan.empty(embedding, rows, len(weight), dtype=dtype)
        widest, maxima, counts = weight.size(1) // embedding.size(1), [], []
        for (ids, missing), its_seen, its_highest in zip(
            parts, seen.split(WINDOWS_AT_ONCE), highest.split(WINDOWS_AT_ONCE), strict=True
        ):
            words, windows = len(ids), ids.size(1) - widest + 1
            real = words * windows
            # (words, windows, widest, dim)
            by_window = F.embedding(ids, rounded_embedding).unfold(1, widest, 1).transpose(2, 3)
            its_seen[:real].view(by_window.shape).copy_(by_window)
            its_seen[real:] = 0
            # (words, windows, filters)
            filtered = product(its_seen, rounded_weight, rounded_bias)[:real].view(words, windows, -1)
            if missing is not None:
                filtered.masked_fill_(missing, -torch.inf)
            # (words, filters)
            maximum = filtered.amax(dim=1)
            equal = torch.eq(filtered, maximum.unsqueeze(1), out=its_highest[:real].view(filtered.shape))
            its_highest[real:] = 0
            maxima.append(maximum)
            counts.append(equal.sum(dim=1))
        ctx.loan, ctx.parts, ctx.seen, ctx.highest = loan, parts, seen, highest
        ctx.save_for_backward(embedding, rounded_weight, torch.cat(counts))
        return torch.cat(maxima).to(embedding.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_maxima: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        embedding, weight, counts = ctx.saved_tensors
        dim = embedding.size(1)
        widest = weight.size(1) // dim
        # Windows that are equally high are alike, and share the gradient.
        shares = (grad_maxima / counts).to(weight.dtype).split([len(part.ids) for part in ctx.parts])
        grad_embedding, grad_weight = torch.zeros_like(embedding), embedding.new_zeros(weight.shape)
        grad_filtered = ctx.highest.new_zeros(WINDOWS_AT_ONCE, len(weight))
        for (ids, _), share, seen, highest in zip(
            ctx.parts,
            shares,
            ctx.seen.split(WINDOWS_AT_ONCE),
            ctx.highest.split(WINDOWS_AT_ONCE),
            strict=True,
        ):
            words, windows = len(ids), ids.size(1) - widest + 1
            real = words * windows
            shape = words, windows, -1
            torch.mul(highest[:real].view(shape), share.unsqueeze(1), out=grad_filtered[:real].view(shape))
            grad_filtered[real:] = 0
            grad_weight += weight_gradient(grad_filtered, seen)
            # (words, windows, widest, dim)
            grad_seen = product(grad_filtered, weight.t())[:real].view(words, windows, widest, dim)
            grad_characters = embedding.new_zeros(*ids.shape, dim)
            for place in range(widest):
                grad_characters[:, place : place + windows] += grad_seen[:, :, place]
            grad_embedding.index_add_(0, ids.flatten(), grad_characters.flatten(0, 1))
        return None, None, grad_embedding, grad_weight, grad_maxima.sum(dim=0)


RECURRING_WORDS = 64
"""
The number of words in a product is a multiple of it, so that few sizes recur: oneDNN compiles a kernel for
each.
"""


class TrainedCharacterCnn(CharacterCnn):
    """
    `CharacterCnn` with gradients for the encoder's weights.

    # Parameters

    encoder : whose weights are trained.
    products : how it multiplies.
    """

    def __init__(self, encoder: CharacterEncoder, products: Products) -> None:
        def product(weight: torch.Tensor, bias: torch.Tensor) -> Rows:
            return lambda rows: Product.apply(products, rows, weight, bias)

        super().__init__(encoder, product)
        self._products = products
        self._weight, self._bias = joined_filters(encoder)

    def __call__(self, words: torch.Tensor) -> torch.Tensor:
        """See `CharacterCnn`."""
        words = shortened(words, self.length)
        blocks, order = blocks_of_like_length(words)
        parts = [
            WordBlock(self.characters_in(block, windows), self.outside(windows)) for block, windows in blocks
        ]
        features = TrainedFilters.apply(self._products, parts, self.embedding, self._weight, self._bias)
        filling = 0, 0, 0, -len(words) % RECURRING_WORDS
        features = F.pad(self.activation(features), filling)
        return self.projected(features, F.pad(words[order], filling))[: len(words)][order.argsort()]
