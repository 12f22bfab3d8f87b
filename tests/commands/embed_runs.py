"""Runs of `embed`: the output they leave, and ways to stop them."""

import os
from pathlib import Path

import h5py
import numpy as np

from elmo_tasks.elmo import FrozenBiLm


def partial(output: Path) -> Path:
    return output.with_name(output.name + ".partial")


def vectors(output: Path) -> list[np.ndarray]:
    with h5py.File(output) as file:
        return [file[str(line)][...] for line in range(len(file) - ("sentence_to_index" in file))]


def nothing_left(output: Path) -> bool:
    return not output.exists() and not partial(output).exists()


def fail_with(number: int):
    def fail(*arguments):
        raise OSError(number, os.strerror(number))

    return fail


def stop_at_batch(monkeypatch, number: int, error: BaseException) -> None:
    """The biLM raises `error` instead of the batch `number`, from 0."""
    encode, calls = FrozenBiLm._in_parts, iter(range(1000))

    def stop(self, ids, run):
        if next(calls) == number:
            raise error
        return encode(self, ids, run)

    monkeypatch.setattr(FrozenBiLm, "_in_parts", stop)
