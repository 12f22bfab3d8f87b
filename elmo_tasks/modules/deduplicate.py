"""Instances that have something in common, which is computed once a batch."""

import torch
from allennlp.data import TextFieldTensors

from elmo_tasks.elmo.inference.unique_rows import one_of_each


def distinct_members(groups: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    *Shape:* the number of each instance's group `(batch,)` to one row of the batch for each group,
    `(groups,)`, and for each instance the index of its group among them, `(batch,)`.
    """
    return one_of_each(groups)


def text_of(rows: torch.Tensor, tokens: TextFieldTensors) -> TextFieldTensors:
    """The tensors of some instances. *Shape:* `(rows,)`, and each `(batch, ...)` to `(rows, ...)`."""
    return {name: {key: tensor[rows] for key, tensor in indexed.items()} for name, indexed in tokens.items()}
