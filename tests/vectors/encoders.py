"""Encoders for tests: a tiny biLM, and tables of vectors."""

from pathlib import Path

import numpy as np

from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.vectors import WordTable
from elmo_tasks.vectors.encoder import BiLmEncoder
from elmo_tasks.vectors.static_vectors import StaticVectors
from tests.elmo.files import make_files, read_frozen

WORDS = ["the", "cat", "dog", "sat", "ran", "Oslo", "mat", "on"]


def tiny_bilm(folder: Path) -> FrozenBiLm:
    return read_frozen(*make_files(folder))


def tiny_encoder(folder: Path) -> BiLmEncoder:
    return BiLmEncoder(bilm=tiny_bilm(folder), mixes={})


def random_vectors() -> StaticVectors:
    table = np.random.default_rng(1).normal(size=(len(WORDS), 5)).astype(np.float32)
    return StaticVectors(name="random", table=WordTable(WORDS, table))
