"""How a biLM leaves the project: as an ONNX file, and with a standardized token layer."""

import logging
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.model import BiLm
from elmo_tasks.elmo.model.encoders import WordEncoder

_NEEDED = ("onnx", "onnxscript")


def write_onnx(bilm: FrozenBiLm | BiLm, path: FilePath) -> None:
    """
    Writes the graph from characters to all layers, each sentence from a state of zeros. A biLM that does not
    read UTF-8 bytes is an `ElmoError`.

    *Shape:* the input `ids`, int64, `(batch, tokens, 50)`, to `layers`, float32, `(layers, batch, tokens,
    dim)`.
    """
    check_packages()
    if bilm.reads != "character_ids":
        raise ElmoError(f"ONNX needs a biLM that reads character_ids, not {bilm.reads}")
    model = Layers(bilm)
    save_onnx(model, {"ids": model.example()}, dynamic_shapes(), ["layers"], path)


def check_packages() -> None:
    if missing := [package for package in _NEEDED if find_spec(package) is None]:
        remedy = "install the extra: make install EXTRAS='onnx'"
        raise ElmoError(f"ONNX needs {' and '.join(missing)}", remedy=remedy)


def save_onnx(
    model: nn.Module,
    example: Mapping[str, torch.Tensor],
    shapes: tuple[Any, ...],
    outputs: Sequence[str],
    path: FilePath,
) -> None:
    """Writes the graph of a module, which reads the tensors of `example` in this order."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # On its own, so that no dimension gets the size that it has in the example
            traced = torch.export.export(model, tuple(example.values()), dynamic_shapes=shapes)
            program = torch.onnx.export(
                traced,
                input_names=list(example),
                output_names=list(outputs),
                dynamo=True,
                verbose=False,
            )
    finally:
        log.setLevel(level)
        # Else the sizes of this example would be those of the next graph in the process, too.
        torch._dynamo.reset()
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
        return self.bilm.padded_ids([["An", "example"], ["Yes"]]).long()


def dynamic_shapes() -> tuple[dict[int, Any], ...]:
    """Returns the dimensions of the ids that may vary, as `torch.export` takes them."""
    return ({0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")},)  # the first one imports sympy


WORDS_PER_BATCH = 4096
MIN_DEVIATION = 1e-6


@torch.no_grad()
def standardize_tokens(bilm: BiLm, sentences: Iterable[Sequence[str]]) -> None:
    """
    Scales the token layer in place, so that each feature has mean 0 and deviation 1 over the words of
    `sentences`. It cannot do so, an `ElmoError`, with less than two distinct words, or a character CNN
    without a projection, whose features cannot be below zero.
    """
    mean, deviation = _moments(bilm, Counter(word for words in sentences for word in words))
    encoder = bilm.token_encoder
    if isinstance(encoder, WordEncoder):
        encoder.embedding.sub_(mean).div_(deviation)
    elif encoder.projection is not None:
        encoder.projection.weight.div_(deviation.unsqueeze(1))
        encoder.projection.bias.sub_(mean).div_(deviation)
    else:
        raise ElmoError("the character CNN has no projection: its features cannot be standardized")
    for direction in range(2):
        lstm = bilm.lstm.layers(direction)[0]
        # (4 dim, projection_dim)
        for_input = lstm.weight[:, : len(mean)]
        lstm.bias.add_(for_input @ mean)
        for_input.mul_(deviation)


def _moments(bilm: BiLm, counts: Counter[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns mean and deviation of each feature over a text. *Shape:* both `(projection_dim,)`."""
    if len(counts) < 2:
        raise ElmoError(
            f"the text has {len(counts)} distinct words; to standardize by it, it needs 2 or more"
        )
    total = weighted_sum = weighted_squares = torch.zeros((), dtype=torch.float64)
    distinct_words = list(counts)
    for start in range(0, len(distinct_words), WORDS_PER_BATCH):
        words = distinct_words[start : start + WORDS_PER_BATCH]
        encoded = bilm.token_encoder(bilm.padded_ids([words])[0])
        vectors = encoded.double()
        weights = torch.tensor([counts[word] for word in words], dtype=torch.float64, device=vectors.device)
        total = total + weights.sum()
        weighted_sum = weighted_sum + weights @ vectors
        weighted_squares = weighted_squares + weights @ vectors.square()
    mean = weighted_sum / total
    deviation = (weighted_squares / total - mean.square()).clamp_min(0).sqrt().clamp_min(MIN_DEVIATION)
    return mean.to(encoded.dtype), deviation.to(encoded.dtype)
