"""A text, biLMs, and the dataclasses of arguments, for the tests of the verbs."""

import io
import sys
from argparse import ArgumentParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import torch

from elmo_tasks.commands.base import add_arguments, read_arguments
from elmo_tasks.common.files import bundled
from elmo_tasks.elmo import BiLmOptions, FrozenBiLm, LstmState, files
from tests.elmo.files import batch, make_files

Kind = TypeVar("Kind")
FIXTURES = bundled("fixtures/evaluation").resolve()

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
DIM = BiLmOptions.read(files.DEFAULT_OPTIONS).output_dim
"""The size of the vectors of the biLM that comes with the project."""


def default_bilm() -> FrozenBiLm:
    """The one that comes with the project, or the one of `small_default`."""
    return FrozenBiLm.read(BiLmOptions.read(files.DEFAULT_OPTIONS), files.DEFAULT_WEIGHTS)


def default_files() -> tuple[str, ...]:
    """The arguments that name it."""
    return "--options-file", files.DEFAULT_OPTIONS, "--weight-file", files.DEFAULT_WEIGHTS


def encode(
    bilm: FrozenBiLm, sentences: list[list[str]], state: LstmState | None = None
) -> tuple[torch.Tensor, LstmState]:
    return bilm(batch(sentences), state)


def feed_stdin(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(content))))


def tiny(folder: Path) -> tuple[str, ...]:
    """Writes a tiny biLM; returns the arguments that name it."""
    options_file, weight_file = make_files(folder / "bilm")
    return "--options-file", str(options_file), "--weight-file", str(weight_file)


def parsed(kind: type[Kind], *arguments: Any) -> Kind:
    """Returns the dataclass of a command line."""
    parser = ArgumentParser()
    add_arguments(parser, kind)
    return read_arguments(kind, parser.parse_args(list(map(str, arguments))))
