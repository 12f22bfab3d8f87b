"""
Word vectors as text: what word2vec, GloVe, fastText and `allennlp elmo vectors` write.

A line is a word and its numbers, between blanks; word2vec's first line, how many words and numbers there are,
may be missing. Words with blanks are left out.
"""

import logging
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.vectors.word_vectors import WordTable

logger = logging.getLogger(__name__)


def read_table(path: str) -> WordTable:
    """
    All words of a file, and their vectors. Words with blanks are counted in the log.

    # Parameters

    path : path or URL, plain or gzip.

    # Raises
    `InputError`, with the file and, where it is one, the line: another number of numbers than before,
    something that is no finite number, no vector at all, and whatever reading raises.
    """
    words: list[str] = []
    values = array("f")
    with_blanks = 0
    dim: int | None = None
    for line in _lines(path):
        if (size := line.size()) is not None:
            if dim not in (None, size.dim):
                raise line.error(f"{size.dim} numbers", f"{dim}, as before")
            dim = size.dim
            continue
        dim = dim or len(line.cells) or 1
        word, vector = line.entry(dim, expected=f"{dim}, with a word")
        if " " in word:
            with_blanks += 1
        else:
            words.append(word)
            values.frombytes(vector.tobytes())
    if not words:
        raise InputError.at(path, found="no vector", expected="lines of a word and its numbers")
    if with_blanks:
        logger.warning("%s: %d words with blanks are left out", path, with_blanks)
    return WordTable(words, np.frombuffer(values, np.float32).reshape(len(words), -1))


@torch.no_grad()
def take_vectors(table: torch.Tensor, words: Sequence[str], path: str) -> None:
    """
    Writes the vectors that a file has of `words` into their rows; the other rows stay as they are.

    Of a word that comes twice the first vector counts. Lines of other words are not looked at.

    *Shape:* `table` `(len(words), dim)`.

    # Parameters

    path : path or URL, plain or gzip.

    # Raises
    `InputError`, with the file and the line: not `dim` numbers, something that is no finite number, none of
    the words, and whatever reading raises.
    """
    dim = table.size(1)
    expected = f"{dim}, the projection_dim"
    rows = {word: row for row, word in enumerate(words)}
    for line in _lines(path):
        if (size := line.size()) is not None:
            if size.dim != dim:
                raise line.error(f"{size.dim} numbers", expected)
        elif line.word in rows:
            word, vector = line.entry(dim, expected=expected)
            if word in rows:
                table[rows.pop(word)] = torch.from_numpy(vector)
    if len(rows) == len(words):
        raise InputError.at(path, found=f"none of {len(words):,} words", expected="vectors of some of them")
    logger.info("%s: vectors of %d of %d words", path, len(words) - len(rows), len(words))


def dimensions(path: str) -> int:
    """
    The size of a file's vectors: what word2vec's first line says, or how many numbers the first word has.

    # Raises
    `InputError`: the file is empty; and whatever reading raises.
    """
    for line in _lines(path):
        size = line.size()
        return len(line.cells) if size is None else size.dim
    raise InputError.at(path, found="no vector", expected="a word and its numbers a line")


class _Size(NamedTuple):
    """What word2vec's first line says."""

    words: int
    dim: int


class _Line(NamedTuple):
    """A line of a file, cut at its blanks."""

    file: Path
    number: int
    word: str
    """The word, or the first part of one with blanks."""
    cells: list[str]
    """What stands behind `word`."""

    def size(self) -> _Size | None:
        """The size of the table, if this is word2vec's first line."""
        if self.number == 1 and len(self.cells) == 1 and self.word.isdecimal() and self.cells[0].isdecimal():
            return _Size(int(self.word), int(self.cells[0]))
        return None

    def entry(self, dim: int, *, expected: str) -> tuple[str, np.ndarray]:
        """
        The whole word and its vector, `(dim,)`, float32.

        # Raises
        `InputError`: another number of numbers than `expected` says, or something that is no finite number.
        """
        parts, numbers = self.cells[:-dim], self.cells[-dim:]
        # A word with blanks may end in a number, but is not all of numbers.
        if len(numbers) < dim or (parts and all(map(_is_number, parts))):
            raise self.error(f"{len(self.cells)} numbers", expected)
        try:
            vector = np.array(numbers, dtype=np.float32)
        except ValueError as error:
            raise self.error(str(error), f"{dim} numbers") from error
        if not np.isfinite(vector).all():
            raise self.error("no finite number", f"{dim} numbers")
        return " ".join([self.word, *parts]), vector

    def error(self, found: str, expected: str) -> InputError:
        return InputError.at(self.file, self.number, found=found, expected=expected)


def _lines(path: str) -> Iterator[_Line]:
    """
    The lines that are not blank.

    # Raises
    `InputError`: a file has fewer lines than its first one says, as one that was cut off.
    """
    for file in input_files(path):
        size = None
        behind = -1
        for number, text in read_lines(file):
            if not (text := text.rstrip()):
                continue
            word, *cells = text.split(" ")
            line = _Line(file, number, word, cells)
            size = size or line.size()
            behind += 1
            yield line
        if size is not None and size.words > behind:
            found, expected = f"{behind:,} lines behind the first one", f"{size.words:,}, as it says"
            raise InputError.at(file, found=found, expected=expected)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
