"""A biLM as an ONNX file, for programs without Python or PyTorch."""

import logging
import warnings
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.model import BiLm

_NEEDED = ("onnx", "onnxscript")


def write_onnx(bilm: FrozenBiLm | BiLm, path: FilePath) -> None:
    """
    Writes the graph from characters to all layers, for any batch and any number of tokens.

    *Shape:* the input `ids`, int64, `(batch, tokens, 50)`, as `BiLm.padded_ids` makes them, and the output
    `layers`, float32, `(layers, batch, tokens, dim)`. Each sentence starts from a state of zeros.

    # Raises
    `ElmoError`: the biLM does not read UTF-8 bytes; or the extra `onnx` is not installed. `OSError`.
    """
    if missing := [package for package in _NEEDED if find_spec(package) is None]:
        raise ElmoError(
            f"ONNX needs {' and '.join(missing)}", remedy="install the extra: make install EXTRAS='onnx'"
        )
    if bilm.reads != "character_ids":
        raise ElmoError(f"ONNX needs a biLM that reads character_ids, not {bilm.reads}")
    model = Layers(bilm)
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                model,
                (model.example(),),
                dynamic_shapes=dynamic_shapes(),
                input_names=["ids"],
                output_names=["layers"],
                dynamo=True,
                verbose=False,
            )
    finally:
        log.setLevel(level)
    assert program is not None
    program.save(path)


class Layers(nn.Module):
    """
    The layers of a biLM for sentences on their own, which `torch.export.export` takes with the example and
    the `dynamic_shapes()`. The weights are a copy, without gradients.
    """

    def __init__(self, bilm: FrozenBiLm | BiLm) -> None:
        super().__init__()
        self.bilm = BiLm(options=bilm.options)
        self.bilm.load_state_dict(bilm.state_dict())
        self.requires_grad_(False).eval()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(batch, tokens, 50)` to `(layers, batch, tokens, dim)`."""
        return self.bilm.encode(ids)

    def example(self) -> torch.Tensor:
        """Returns ids with which the graph is traced."""
        return self.bilm.padded_ids([["An", "example"], ["Yes"]]).long()


def dynamic_shapes() -> tuple[dict[int, Any], ...]:
    """Returns the dimensions of the ids that may vary, as `torch.export` takes them."""
    return ({0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")},)  # the first one imports sympy
