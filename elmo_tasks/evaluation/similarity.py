"""Word similarity: the rank correlation of the cosines of word pairs with scores by people."""

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

logger = logging.getLogger(__name__)

_DELIMITERS = ("\t", ";", ",")


class Pair(NamedTuple):
    """Two words and their score."""

    first: str
    second: str
    score: float


class Correlation(NamedTuple):
    """A rank correlation over the pairs whose words are both known."""

    value: float
    """Not a number if it is undefined: fewer than two pairs, or all scores or cosines are equal."""
    covered: int


def spearman(vectors: WordVectors, words: Sequence[str], pairs: Sequence[Pair]) -> Correlation:
    """
    Returns Spearman's rank correlation of cosines and scores, with ties as SciPy treats them.

    # Parameters

    words : the words of the vectors' rows, among them all words of the pairs.
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
        logger.warning("%s: all cosines or all scores are equal, there is no correlation", vectors.name)
    return Correlation(value, len(scores))


def round_cosines(cosines: torch.Tensor) -> torch.Tensor:
    """
    Rounds cosines of float32 vectors to six decimals, so that equal vectors have equal cosines: without it,
    rounding errors of the products would tell them apart. *Shape:* any.
    """
    return cosines.round(decimals=6)


def read_pairs(path: str) -> list[Pair]:
    """
    Reads the layouts of WordSim-353 (csv, tab, txt), SimLex-999, MEN (natural form) and RG-65: two words, and
    a score in the first column after them that holds a number.

    Columns are separated by tabs, semicolons, commas or, in a file without these, blanks. A first line
    without a number in that column is a header. Empty lines and lines that begin with `#` are left out.

    # Raises
    `InputError`, with the file and the line: no pair, a line without two words or without a score, and the
    errors of reading.
    """
    return [pair for file in input_files(path) for pair in _read_file(file)]


def _read_file(file: Path) -> list[Pair]:
    lines = [(number, line) for number, line in read_lines(file) if line.strip() and not line.startswith("#")]
    delimiter = next((mark for mark in _DELIMITERS if lines and mark in lines[0][1]), None)
    rows = [(number, _cells(file, number, line, delimiter)) for number, line in lines]
    if not rows:
        raise InputError.at(file, found="no pair of words", expected="lines of two words and a score")
    # The second line decides: a number in the first one may be the name of a column.
    number, cells = rows[min(1, len(rows) - 1)]
    place = next((place for place in range(2, len(cells)) if _is_number(cells, place)), None)
    if place is None:
        raise InputError.at(file, number, found=repr(" ".join(cells)), expected="two words and a number")
    if not _is_number(rows[0][1], place):
        del rows[0]
    pairs = []
    for number, cells in rows:
        if not _is_number(cells, place):
            expected = f"two words, and a number in column {place + 1}"
            raise InputError.at(file, number, found=repr(" ".join(cells)), expected=expected)
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


def _is_number(cells: list[str], place: int) -> bool:
    try:
        return math.isfinite(float(cells[place]))
    except (ValueError, IndexError):
        return False
