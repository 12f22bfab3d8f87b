"""Layers whose weights are fitted without gradients, and have the sizes that the state dict says."""

import json
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class SizedByState(nn.Module):
    """A module with buffers alone, which take their sizes from the state dict that is loaded."""

    def _load_from_state_dict(self, state_dict: dict[str, torch.Tensor], prefix: str, *args: object) -> None:
        """PyTorch calls it."""
        for name, buffer in list(self.named_buffers(recurse=False)):
            if prefix + name in state_dict:
                setattr(self, name, buffer.new_empty(state_dict[prefix + name].shape))
        super()._load_from_state_dict(state_dict, prefix, *args)


def to_bytes(value: Any) -> torch.Tensor:
    """Returns JSON as a buffer. *Shape:* `(bytes,)`."""
    return torch.frombuffer(bytearray(json.dumps(value, ensure_ascii=False).encode()), dtype=torch.uint8)


def from_bytes(buffer: torch.Tensor) -> Any:
    return json.loads(bytes(buffer.tolist()))


class LinearLayer(SizedByState):
    """A linear layer without gradients for its weights."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(outputs, inputs))
        self.register_buffer("bias", torch.zeros(outputs))

    def fill(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        """*Shape:* `(outputs, inputs)`, `(outputs,)`."""
        self.weight, self.bias = weight.detach().to(self.weight), bias.detach().to(self.bias)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(..., inputs)` to `(..., outputs)`."""
        return F.linear(inputs, self.weight, self.bias)
