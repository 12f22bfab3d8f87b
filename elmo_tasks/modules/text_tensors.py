"""Rows of text put together and chosen, whatever their tensors are."""

import torch
from allennlp.data import TextFieldTensors


def stack_texts(one: TextFieldTensors, other: TextFieldTensors) -> TextFieldTensors:
    """
    The rows of `one`, then those of `other`, padded with 0 to the same length.

    *Shape:* for each tensor `(batch, tokens, ...)` twice to `(2 batch, tokens, ...)`.
    """
    return {
        name: {key: _stack(tensor, other[name][key]) for key, tensor in indexed.items()}
        for name, indexed in one.items()
    }


def choose_texts(tokens: TextFieldTensors, rows: torch.Tensor) -> TextFieldTensors:
    """Some rows of a batch. *Shape:* each tensor `(batch, ...)`, and `(rows,)`, to `(rows, ...)`."""
    return {name: {key: tensor[rows] for key, tensor in indexed.items()} for name, indexed in tokens.items()}


def _stack(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    shape = [max(sizes) for sizes in zip(one.shape[1:], other.shape[1:], strict=True)]
    stacked = one.new_zeros(len(one) + len(other), *shape)
    for rows, tensor in ((stacked[: len(one)], one), (stacked[len(one) :], other)):
        rows[tuple(map(slice, (len(rows), *tensor.shape[1:])))] = tensor
    return stacked
