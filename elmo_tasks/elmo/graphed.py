"""A function of tensors as a CUDA graph: one launch instead of hundreds."""

import logging
from collections.abc import Callable

import torch

logger = logging.getLogger(__name__)

Function = Callable[..., tuple[torch.Tensor, ...]]


class Graphed:
    """
    `function`, recorded once for each shape of its inputs and played again from then on. Where there is no
    CUDA, or a recording fails, it is called as it is.

    # Parameters

    function : of tensors to a tuple of tensors; it leaves its inputs as they are, and its course depends on
        nothing but their shapes.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self._recorded: dict[tuple[torch.Size, ...], _Recording] = {}
        self._failed = False

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if self._failed or not all(tensor.is_cuda for tensor in inputs):
            return self.function(*inputs)
        shapes = tuple(tensor.shape for tensor in inputs)
        if shapes not in self._recorded:
            try:
                self._recorded[shapes] = _Recording(self.function, inputs)
            except RuntimeError as error:
                logger.warning("No CUDA graph could be recorded (%s): ELMo runs without", error)
                self._failed = True
                return self.function(*inputs)
        return self._recorded[shapes].play(inputs)


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
        for recorded, given in zip(self.inputs, inputs, strict=True):
            recorded.copy_(given)
        self.graph.replay()
        return tuple(output.clone() for output in self.outputs)
