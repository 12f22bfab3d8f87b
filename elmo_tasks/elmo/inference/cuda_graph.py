"""A function of tensors as a CUDA graph: one launch instead of hundreds."""

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

logger = logging.getLogger(__name__)

Function = Callable[..., tuple[torch.Tensor, ...]]

RECORDINGS = 64
"""Recordings of a function that are kept; the one used longest ago is dropped first."""


class CudaGraph:
    """
    `function`, recorded once for each kind of inputs and played again from then on. Where there is no CUDA,
    or a recording fails, it is called as it is. One thread at a time may call it.

    # Parameters

    function : of tensors to a tuple of tensors; it leaves its inputs as they are, and its course depends on
        nothing but their shapes and types.
    """

    def __init__(self, function: Function, *, capacity: int = RECORDINGS) -> None:
        self.function = function
        self.capacity = capacity
        self._recordings: OrderedDict[Any, _Recording] = OrderedDict()
        self._failed = False

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if self._failed or not all(tensor.is_cuda for tensor in inputs):
            return self.function(*inputs)
        kind = tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in inputs)
        if kind not in self._recordings:
            try:
                self._recordings[kind] = _Recording(self.function, inputs)
            except RuntimeError as error:
                logger.warning("No CUDA graph could be recorded (%s): ELMo runs without", error)
                self._failed = True
                return self.function(*inputs)
            if len(self._recordings) > self.capacity:
                self._recordings.popitem(last=False)
        self._recordings.move_to_end(kind)
        return self._recordings[kind].play(inputs)


class _Recording:
    def __init__(self, function: Function, inputs: tuple[torch.Tensor, ...]) -> None:
        self.inputs = [tensor.clone() for tensor in inputs]
        # Libraries set themselves up at their first use, which must not be recorded.
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            function(*self.inputs)
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.outputs = function(*self.inputs)

    def play(self, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        for own, tensor in zip(self.inputs, inputs, strict=True):
            own.copy_(tensor)
        self.graph.replay()
        return tuple(output.clone() for output in self.outputs)
