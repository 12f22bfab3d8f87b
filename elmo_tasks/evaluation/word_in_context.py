"""
Word in Context (Pilehvar and Camacho-Collados 2019, arXiv:1808.09121): does a word have the same sense in two
sentences? The answer is a threshold on the cosine of its two vectors.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional as F

from elmo_tasks.common.progress import progress
from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.data.tokenization import Words, tokenizer
from elmo_tasks.evaluation.similarity import round_cosines
from elmo_tasks.vectors.encoder import Encoder

_COLUMNS = ("sentence1", "sentence2", "start1", "start2", "end1", "end2", "label")
_LABELS = {"0": False, "1": True}


class Use(NamedTuple):
    """The tokens `[start, end)` of a sentence."""

    words: list[str]
    start: int
    end: int


class UsePair(NamedTuple):
    """Two uses of a word, and whether they have the same sense."""

    first: Use
    second: Use
    same: bool


class Threshold(NamedTuple):
    """The lowest cosine of two uses with the same sense."""

    cosine: float
    correct: int
    """The number of correct answers for the pairs on which the threshold was chosen."""


def use_cosines(encoder: Encoder, pairs: Sequence[UsePair]) -> torch.Tensor:
    """
    Returns the cosine of the two uses of each pair, 0 if one has no vector.

    *Shape:* `(rows, pairs)`, float64.
    """
    uses = [use for pair in pairs for use in (pair.first, pair.second)]
    bar = progress(uses, work="uses", unit="sentences")
    # (rows, 2 pairs, dim)
    vectors = torch.stack(
        [
            encoder.occurrence(vectors, use.start, use.end)
            for use, vectors in encoder.encode_items(bar, lambda use: use.words)
        ],
        dim=1,
    )
    first, second = vectors[:, ::2].double(), vectors[:, 1::2].double()
    return round_cosines(F.cosine_similarity(first, second, dim=2))


def choose_threshold(cosines: torch.Tensor, same: torch.Tensor) -> Threshold:
    """
    Returns the threshold with the most correct answers; of equally good ones, the lowest. It lies halfway
    between two neighbouring cosines, or at infinity, where all pairs have the same answer.

    *Shape:* both `(pairs,)`.
    """
    values = cosines.unique()
    ends = values.new_tensor([torch.inf])
    # (thresholds,)
    thresholds = torch.cat([-ends, (values[1:] + values[:-1]) / 2, ends])
    cosines_of_same, cosines_of_different = cosines[same].sort().values, cosines[~same].sort().values
    below_same = torch.searchsorted(cosines_of_same, thresholds)
    below_different = torch.searchsorted(cosines_of_different, thresholds)
    correct = len(cosines_of_same) - below_same + below_different
    best = int(correct.argmax())
    return Threshold(float(thresholds[best]), int(correct[best]))


def read_use_pairs(path: str) -> list[UsePair]:
    """
    Reads tab-separated columns with a header: two sentences, the first and the last character of the word in
    each, as `[start, end)`, and whether its senses are the same, 0 or 1. Quotes are literal; further columns
    and blank lines are ignored.

    # Raises
    `InputError`, with the file and the line: a file without pairs, a missing column, characters without a
    token, another label, and the errors of reading.
    """
    return [pair for file in input_files(path) for pair in _read_file(file)]


def _read_file(file: Path) -> list[UsePair]:
    tokenize = tokenizer()
    columns: list[str] | None = None
    pairs = []
    for line, text in read_lines(file):
        if not text.strip():
            continue
        cells = text.split("\t")
        if columns is None:
            columns = cells
            if missing := [name for name in _COLUMNS if name not in columns]:
                expected = f"a header with {', '.join(_COLUMNS)}"
                raise InputError.at(file, line, found=f"no column {missing[0]}", expected=expected)
            continue
        if len(cells) != len(columns):
            raise InputError.at(file, line, found=f"{len(cells)} columns", expected=f"{len(columns)}")
        row = dict(zip(columns, cells, strict=True))
        if row["label"] not in _LABELS:
            raise InputError.at(file, line, found=f"the label {row['label']!r}", expected="0 or 1")
        first, second = (
            _use(tokenize(row[f"sentence{n}"]), row[f"start{n}"], row[f"end{n}"]) for n in (1, 2)
        )
        if first is None or second is None:
            found = f"no token at {', '.join(f'{name} {row[name]}' for name in _COLUMNS[2:6])}"
            raise InputError.at(file, line, found=found, expected="the characters of a word")
        pairs.append(UsePair(first, second, _LABELS[row["label"]]))
    if not pairs:
        raise InputError.at(file, found="no pair", expected="at least one")
    return pairs


def _use(sentence: Words, start: str, end: str) -> Use | None:
    """Returns all tokens that have characters of `[start, end)`."""
    if not start.isdecimal() or not end.isdecimal():
        return None
    tokens = [
        number
        for number, (first, last) in enumerate(sentence.offsets)
        if first < int(end) and last > int(start)
    ]
    return Use(sentence.words, tokens[0], tokens[-1] + 1) if tokens else None
