"""
Cosines that are equal where only rounding tells them apart, as those of equal words without context.

Word similarity: pairs of words with a score by people, against the cosine of their vectors.
"""

import csv
import logging
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional as F

from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.vectors.word_vectors import WordVectors

# ==== evaluation.cosine
_DECIMALS = 6


def round_cosines(cosines: torch.Tensor) -> torch.Tensor:
    """*Shape:* any. Cosines to six decimals, of vectors in float32 or better."""
    return cosines.round(decimals=_DECIMALS)


# ==== evaluation.similarity
logger = logging.getLogger(__name__)

_DELIMITERS = ("\t", ";", ",")


class Pair(NamedTuple):
    first: str
    second: str
    score: float


class Correlation(NamedTuple):
    value: float
    """Not a number where there is none: less than two pairs, or all scores or cosines alike."""
    covered: int
    """Pairs of which both words are known."""


def read_pairs(path: str) -> list[Pair]:
    """
    The layouts of WordSim-353 (csv, tab, txt), SimLex-999, MEN (natural form) and RG-65: two words and, in
    the first column behind them that holds a number, a score.

    Columns are separated by tabs, semicolons, commas or, where there is none of these, blanks. A first line
    without a number there is a header; empty lines and those that begin with `#` are left out.

    # Raises
    `InputError`, with the file and, where it is one, the line: no pair, a line without two words or without a
    number in the score's column, and whatever reading raises.
    """
    return [pair for file in input_files(path) for pair in _read(file)]


def spearman(vectors: WordVectors, words: Sequence[str], pairs: Sequence[Pair]) -> Correlation:
    """
    Spearman's rank correlation of cosines and scores over the covered pairs; ties as scipy has them.

    # Parameters

    words : of the vectors' rows, all those of the pairs among them.
    """
    rows = {word: row for row, word in enumerate(words)}
    # (pairs, 2)
    ids = torch.tensor([[rows[pair.first], rows[pair.second]] for pair in pairs])
    covered = vectors.known[ids].all(dim=1)
    # (covered, dim)
    first, second = vectors.vectors[ids[covered]].double().unbind(dim=1)
    cosines = round_cosines(F.cosine_similarity(first, second, dim=1))
    scores = torch.tensor([pair.score for pair in pairs], dtype=torch.double)[covered]
    if len(scores) < 2:
        return Correlation(float("nan"), len(scores))
    from scipy.stats import ConstantInputWarning, spearmanr  # takes half a second

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)
        value = float(spearmanr(cosines.numpy(), scores.numpy()).statistic)
    if math.isnan(value):
        logger.warning("%s: all cosines or all scores are alike, there is no correlation", vectors.name)
    return Correlation(value, len(scores))


def _read(file: Path) -> list[Pair]:
    lines = [(number, line) for number, line in read_lines(file) if line.strip() and not line.startswith("#")]
    delimiter = next((mark for mark in _DELIMITERS if lines and mark in lines[0][1]), None)
    rows = [(number, _cells(file, number, line, delimiter)) for number, line in lines]
    if not rows:
        raise InputError.at(file, found="no pair of words", expected="lines of two words and a score")
    # What is a number may only be the name of a column in the first line.
    place = _score_column(file, *rows[min(1, len(rows) - 1)])
    if not _is_number(rows[0][1], place):
        del rows[0]
    pairs = []
    for number, cells in rows:
        if not _is_number(cells, place):
            found, expected = " ".join(cells), f"two words, and a number in column {place + 1}"
            raise InputError.at(file, number, found=repr(found), expected=expected)
        pairs.append(Pair(cells[0], cells[1], float(cells[place])))
    return pairs


def _cells(file: Path, number: int, line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return line.split()
    try:
        (cells,) = csv.reader([line], delimiter=delimiter)
    except csv.Error as error:
        raise InputError.at(file, number, found=f"no csv ({error})", expected="csv") from error
    return [cell.strip() for cell in cells]


def _score_column(file: Path, line: int, cells: list[str]) -> int:
    """The first behind the two words that holds a number."""
    for place in range(2, len(cells)):
        if _is_number(cells, place):
            return place
    raise InputError.at(file, line, found=repr(" ".join(cells)), expected="two words and a number")


def _is_number(cells: list[str], place: int) -> bool:
    try:
        return math.isfinite(float(cells[place]))
    except (ValueError, IndexError):
        return False
