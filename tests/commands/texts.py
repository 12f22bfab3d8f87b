"""A text, and the biLM that the commands run by default."""

import io
import sys
from types import SimpleNamespace

import torch

from elmo_tasks.elmo import BiLmOptions, FrozenBiLm, LstmState
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, DEFAULT_WEIGHTS
from tests.elmo.files import batch

LINES = [
    "The cat sat on the mat .",
    "  Zoë\tflew to  Łódź 😀 ",
    "",
    "Yes",
    f"A {'long' * 20} word",
    "   ",
    "Yes",
    "The very long sentence goes on and on , until the cat is tired of the mat .",
    '"Quoted" \\ and <S> </S> \x1f \u2028 odd',
    "one two three",
]
TEXT = "\n".join(LINES) + "\n"
DIM = BiLmOptions.read(DEFAULT_OPTIONS).output_dim
"""Of the vectors of the biLM that comes with the project."""


def shipped_bilm() -> FrozenBiLm:
    return FrozenBiLm.read(BiLmOptions.read(DEFAULT_OPTIONS), DEFAULT_WEIGHTS)


def encode(
    bilm: FrozenBiLm, sentences: list[list[str]], state: LstmState | None = None
) -> tuple[torch.Tensor, LstmState]:
    return bilm(batch(sentences), state)


def feed_stdin(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
