"""Instances that have something in common, which is computed once a batch."""

import torch
from allennlp.data import TextFieldTensors


def distinct_members(groups: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    *Shape:* the number of each instance's group `(batch,)` to one row of the batch for each group,
    `(groups,)`, and for each instance the index of its group among them, `(batch,)`.
    """
    numbers, indices = groups.unique(return_inverse=True)
    rows = torch.empty_like(numbers).scatter_(0, indices, torch.arange(len(groups), device=groups.device))
    return rows, indices


def text_of(rows: torch.Tensor, tokens: TextFieldTensors) -> TextFieldTensors:
    """The tensors of some instances. *Shape:* `(rows,)`, and each `(batch, ...)` to `(rows, ...)`."""
    return {name: {key: tensor[rows] for key, tensor in indexed.items()} for name, indexed in tokens.items()}
