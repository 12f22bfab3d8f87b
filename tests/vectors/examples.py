"""Encoders and texts for tests: a tiny biLM, a table of vectors, and words that share their neighbours."""

import random
from pathlib import Path

import numpy as np

from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.vectors import VectorTable
from elmo_tasks.vectors.encoder import BiLmEncoder, StaticVectors
from tests.elmo.files import make_files, read_frozen

WORDS = ["the", "cat", "dog", "sat", "ran", "Oslo", "mat", "on"]


def tiny_bilm(folder: Path) -> FrozenBiLm:
    return read_frozen(*make_files(folder))


def tiny_encoder(folder: Path) -> BiLmEncoder:
    return BiLmEncoder(bilm=tiny_bilm(folder), mixes={})


def random_vectors() -> StaticVectors:
    table = np.random.default_rng(1).normal(size=(len(WORDS), 5)).astype(np.float32)
    return StaticVectors(name="random", table=VectorTable(WORDS, table))


def sentences(number: int = 300, seed: int = 3) -> list[list[str]]:
    """Animals act, machines are handled: `cat` and `dog`, `engine` and `pump` have the same neighbours."""
    draw = random.Random(seed)
    made = []
    for _ in range(number):
        if draw.random() < 0.5:
            words = ["the", draw.choice(["cat", "dog"]), draw.choice(["eats", "sleeps", "plays"]), "outside"]
        else:
            words = ["we", draw.choice(["repair", "start", "stop"]), "this", draw.choice(["engine", "pump"])]
        made.append(words)
    return made
