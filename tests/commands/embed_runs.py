"""Runs of `embed`: the output they leave, and ways to stop them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

h5py = pytest.importorskip("h5py")

from elmo_tasks.elmo import FrozenBiLm


def partial(output: Path) -> Path:
    return output.with_name(output.name + ".partial")


def vectors(output: Path) -> list[np.ndarray]:
    with h5py.File(output) as file:
        return [file[str(line)][...] for line in range(len(file) - ("sentence_to_index" in file))]


def nothing_left(output: Path) -> bool:
    return not output.exists() and not partial(output).exists()


def before_each_batch(monkeypatch, act: Callable[[torch.Tensor], None]) -> None:
    """The biLM calls `act` with the ids of each batch that it reads, on its own or as a part of a text."""

    def acting(read):
        def run(self, ids, *arguments):
            act(ids)
            return read(self, ids, *arguments)

        return run

    for name in ("forward", "encode"):
        monkeypatch.setattr(FrozenBiLm, name, acting(getattr(FrozenBiLm, name)))


def stop_at_batch(monkeypatch, number: int, error: BaseException) -> None:
    """The biLM raises `error` instead of the batch `number`, from 0."""
    calls = iter(range(1000))

    def stop(ids):
        if next(calls) == number:
            raise error

    before_each_batch(monkeypatch, stop)
