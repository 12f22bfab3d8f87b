"""Similarity of words: the rank correlation of the cosines of word pairs with scores by people."""

import csv
import logging
import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional as F

from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.vectors.encoder import WordVectors

logger = logging.getLogger(__name__)

_DELIMITERS = ("\t", ";", ",")
_WORD_NAME = re.compile("(first|second)?(word|term|lemma|noun|verb)(1|2|a|b|one|two)?|w[12]")
_SCORE_NAME = re.compile("score|sim|rating|mean|average|relatedness|human|gold")
_NO_WORDS = {"", "id", "index", "idx", "no", "pos", "pos1", "pos2", "type"}
_LEMMA = re.compile(".+-[nvj]")
"""A word in MEN's lemma form, with its part of speech."""
_PARTS_OF_SPEECH = frozenset(["n", "v", "a", "r", "s", "nn", "vb", "jj", "rb", "noun", "verb", "adj", "adv"])


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
    Returns Spearman's rank correlation of cosines and scores, with ties as SciPy treats them. `words` are the
    words of the vectors' rows, among them all words of the pairs.
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
    """Rounds cosines to six decimals, so that rounding errors do not tell equal vectors apart."""
    return cosines.round(decimals=6)


def read_pairs(path: str) -> list[Pair]:
    """
    Reads the layouts of WordSim-353 (csv, tab, txt), SimLex-999, MEN (natural and lemma form), RG-65, SCWS
    and similar sets: two words, and a score in a column of numbers after them.

    Columns are separated by tabs, semicolons, commas or, in a file without these, blanks. A first line
    without a number in the column of the scores is a header, whose names say which columns are the words and
    the score. Without such names, columns of numbers before the words, of parts of speech, and of single
    letters, as the relations in WordSim-353, are left out. So are the parts of speech of MEN's lemma form,
    `sun-n`, if all words have one. Empty lines and lines that begin with `#` are left out. For all else there
    is an `InputError`, with the file and the line.
    """
    return [pair for file in input_files(path) for pair in _read_pairs(file)]


def _read_pairs(file: Path) -> list[Pair]:
    lines = [
        (line_number, line)
        for line_number, line in read_lines(file)
        if line.strip() and not line.startswith("#")
    ]
    delimiter = next((mark for mark in _DELIMITERS if lines and mark in lines[0][1]), None)
    rows = [(line_number, _cells(file, line_number, line, delimiter)) for line_number, line in lines]
    if not rows:
        raise InputError.at(file, found="no pair of words", expected="lines of two words and a score")
    # The second line decides: a number in the first one may be the name of a column.
    line_number, cells = rows[min(1, len(rows) - 1)]
    # A header lacks a number that a line of data has.
    lacks = (is_number(cells, at) and not is_number(rows[0][1], at) for at in range(2, len(cells)))
    header = rows.pop(0)[1] if any(lacks) else None
    columns = _columns(
        header if header and len(header) == len(cells) else [], [row for _, row in rows], cells
    )
    if columns is None:
        raise InputError.at(file, line_number, found=repr(" ".join(cells)), expected="two words and a number")
    first, second, score = columns
    pairs = []
    for line_number, cells in rows:
        if header and delimiter and not len(_without_empty(cells)) <= len(header) <= len(cells):
            raise InputError.at(file, line_number, found=f"{len(cells)} columns", expected=f"{len(header)}")
        if not is_number(cells, score) or is_number(cells, first) or is_number(cells, second):
            expected = f"two words, and a number in column {score + 1}"
            raise InputError.at(file, line_number, found=repr(" ".join(cells)), expected=expected)
        pairs.append(Pair(cells[first], cells[second], float(cells[score])))
    if all(_LEMMA.fullmatch(word) for pair in pairs for word in pair[:2]):
        return [Pair(first[:-2], second[:-2], score) for first, second, score in pairs]
    return pairs


def _columns(header: list[str], rows: list[list[str]], data: list[str]) -> tuple[int, int, int] | None:
    """Returns the columns of both words and of the score, if there are any. `data` is one of the rows."""
    names = [re.sub(r"[\W_]", "", cell.lower()) for cell in header] or ["?"] * len(data)
    words = [column for column, name in enumerate(names) if _WORD_NAME.fullmatch(name)]
    if len(words) != 2:
        # Identifiers and parts of speech may be beside the words.
        words = [
            column
            for column, name in enumerate(names)
            if not is_number(data, column) and name not in _NO_WORDS
        ]
        others = []
        for column in words:
            cells = [row[column].lower() if column < len(row) else "" for row in rows]
            if not all(cell in _PARTS_OF_SPEECH or len(cell) == 1 for cell in cells):
                others.append(column)
        words = others if len(others) >= 2 else words
    if len(words) < 2:
        return None
    scores = [column for column in range(words[1] + 1, len(data)) if is_number(data, column)]
    named = [column for column in scores if _SCORE_NAME.search(names[column])]
    return (words[0], words[1], (named or scores)[0]) if scores else None


def _without_empty(cells: list[str]) -> list[str]:
    """Returns the cells without empty ones at the end, as trailing delimiters leave them."""
    return cells[: max((column + 1 for column, cell in enumerate(cells) if cell), default=0)]


def _cells(file: Path, line_number: int, line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return line.split()
    if delimiter == "\t":  # a mark of quotation may be of the text, as in the contexts of SCWS
        return [cell.strip().strip('"') for cell in line.split(delimiter)]
    try:
        (cells,) = csv.reader([line], delimiter=delimiter)
    except csv.Error as error:
        raise InputError.at(file, line_number, found=f"no csv ({error})", expected="csv") from error
    return [cell.strip() for cell in cells]


def is_number(cells: list[str], column: int) -> bool:
    """Tells whether there is a finite number in a column."""
    try:
        return math.isfinite(float(cells[column]))
    except (ValueError, IndexError):
        return False
