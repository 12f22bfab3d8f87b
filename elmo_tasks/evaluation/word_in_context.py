"""
Word in Context (Pilehvar and Camacho-Collados 2019, arXiv:1808.09121): does a word have the same sense in two
sentences? The answer is a threshold on the cosine of its two vectors.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from elmo_tasks.common.progress import progress
from elmo_tasks.data.formats.delimited import DelimitedLayout
from elmo_tasks.data.formats.records import read_records
from elmo_tasks.data.input_files import InputError, file_beside, input_files, nonblank_lines
from elmo_tasks.data.tokenization import Words, tokenizer
from elmo_tasks.evaluation.similarity import round_cosines
from elmo_tasks.vectors.encoder import Encoder

_COLUMNS = ("sentence1", "sentence2", "start1", "start2", "end1", "end2", "label")
_LABELS = {"0": False, "1": True, "False": False, "True": True}
_DATA, _GOLD = ".data.txt", ".gold.txt"
_GOLD_LABELS = {"F": False, "T": True}


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
    """Returns the cosine of each pair's uses, 0 without a vector. *Shape:* `(rows, pairs)`, float64."""
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
    Reads pairs of uses, in one of these layouts; for all else there is an `InputError`, with the file and the
    line.

    - WiC's: `NAME.data.txt`, without a header: word, part of speech, `3-5` (the words' indices from 0), and
      two tokenised sentences, separated by tabs; beside it `NAME.gold.txt`, a line T or F for each pair;
    - SuperGLUE's: JSON Lines with the names below, and true or false as `label`;
    - tab-separated columns with a header: two sentences, the first and the last character of the word in
      each, as `[start, end)`, and whether its senses are the same, 0 or 1. Quotes are literal; further
      columns and blank lines are ignored.
    """
    files = input_files(path)
    gold = {_gold_of(file) for file in files if file.name.endswith(_DATA)}
    return [pair for file in files if file not in gold for pair in _read_file(file)]


def _read_file(file: Path) -> list[UsePair]:
    if file.name.endswith(_DATA):
        pairs = list(_read_data(file))
    else:
        tokenize = tokenizer()
        records = read_records(file, layout=DelimitedLayout(delimiter="\t", quotes=False))
        pairs = [_pair(file, record.line, record.values, tokenize) for record in records]
    if not pairs:
        raise InputError.at(file, found="no pair", expected="at least one")
    return pairs


def _gold_of(file: Path) -> Path:
    return file_beside(file, file.name.removesuffix(_DATA) + _GOLD)


def _read_data(file: Path) -> Iterator[UsePair]:
    gold_file = _gold_of(file)
    gold = [(line, text.strip()) for line, text in nonblank_lines(gold_file)]
    rows = list(nonblank_lines(file))
    if len(gold) != len(rows):
        raise InputError.at(gold_file, found=f"{len(gold)} answers", expected=f"{len(rows)}")
    for (line, text), (gold_line, label) in zip(rows, gold, strict=True):
        if label not in _GOLD_LABELS:
            raise InputError.at(gold_file, gold_line, found=f"the label {label!r}", expected="T or F")
        if len(cells := text.split("\t")) != 5:
            raise InputError.at(file, line, found=f"{len(cells)} columns", expected="5")
        uses = [
            Use(words, int(index), int(index) + 1)
            for index, sentence in zip(cells[2].split("-"), cells[3:], strict=False)
            if index.isdecimal() and int(index) < len(words := sentence.split())
        ]
        if len(uses) != 2:
            expected = "the indices of two words, such as 3-5"
            raise InputError.at(file, line, found=repr(cells[2]), expected=expected)
        yield UsePair(uses[0], uses[1], _GOLD_LABELS[label])


def _pair(file: Path, line: int, row: dict[str, Any], tokenize: Callable[[str], Words]) -> UsePair:
    if missing := [name for name in _COLUMNS if name not in row]:
        raise InputError.at(file, line, found=f"no {missing[0]!r}", expected=", ".join(_COLUMNS))
    values = [str(row[name]) for name in _COLUMNS]
    *_, label = values
    if label not in _LABELS:
        raise InputError.at(
            file, line, found=f"the label {label!r}", expected="0 or 1, or in JSON true or false"
        )
    first, second = (_use(tokenize(values[n]), values[n + 2], values[n + 4]) for n in (0, 1))
    if first is None or second is None:
        offsets = zip(_COLUMNS[2:6], values[2:6], strict=True)
        found = f"no token at {', '.join(f'{name} {value}' for name, value in offsets)}"
        raise InputError.at(file, line, found=found, expected="the characters of a word")
    return UsePair(first, second, _LABELS[label])


def _use(sentence: Words, start: str, end: str) -> Use | None:
    """Returns all tokens that have characters of `[start, end)`."""
    if not start.isdecimal() or not end.isdecimal():
        return None
    tokens = [
        index
        for index, (first, last) in enumerate(sentence.offsets)
        if first < int(end) and last > int(start)
    ]
    return Use(sentence.words, tokens[0], tokens[-1] + 1) if tokens else None
