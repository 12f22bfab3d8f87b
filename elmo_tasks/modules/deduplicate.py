"""Instances that have something in common, which is computed once a batch: see `one_of_each`."""

import torch
from allennlp.data import TextFieldTensors


def text_of(rows: torch.Tensor, tokens: TextFieldTensors) -> TextFieldTensors:
    """The tensors of some instances. *Shape:* `(rows,)`, and each `(batch, ...)` to `(rows, ...)`."""
    return {name: {key: tensor[rows] for key, tensor in indexed.items()} for name, indexed in tokens.items()}
