"""
Word vectors in files, as word2vec, GloVe, fastText and `allennlp elmo vectors` write them.

In a text, a line is a word and its numbers, separated by blanks or tabs. A first line with the numbers of
words and of dimensions, as in word2vec's files, is optional. In word2vec's binary files it is followed by
each word, a blank, and its numbers as float32.
"""

import codecs
import gzip
import logging
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import torch

from elmo_tasks.common.errors import errors_as
from elmo_tasks.common.files import UNREADABLE, decompressed
from elmo_tasks.data.input_files import InputError, input_files, read_lines, shorten

logger = logging.getLogger(__name__)


class VectorTable(NamedTuple):
    """Words, the most frequent first, and their vectors. *Shape:* `(words, dim)`, float32."""

    words: list[str]
    vectors: np.ndarray


def write_vectors(path: Path, table: VectorTable) -> None:
    """Writes word2vec's format, by gzip if the name ends in `.gz`. Equal tables give equal bytes."""
    with open(path, "wb") as raw:
        packed = path.suffix == ".gz"
        file = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) if packed else raw
        with file:
            file.write(f"{len(table.words)} {table.vectors.shape[1]}\n".encode())
            for word, vector in zip(table.words, table.vectors.tolist(), strict=True):
                file.write(f"{word} {' '.join(f'{value:.7g}' for value in vector)}\n".encode())


def read_vectors(path: str) -> VectorTable:
    """
    Reads all words of a file, see `input_files`, and their vectors. Words with blanks are left out; the log
    counts them. A line with another count of numbers than the first, a number that is not finite, and a file
    without vectors are an `InputError`.
    """
    words: list[str] = []
    values = array("f")
    with_blanks = dim = 0
    for line in _vector_lines(path):
        dim = dim or line.dim
        word, vector = line.entry(dim)
        if " " in word:
            with_blanks += 1
        else:
            words.append(word)
            values.frombytes(vector.tobytes())
    if with_blanks:
        logger.warning("%s: %d words with blanks are left out", path, with_blanks)
    return VectorTable(words, np.frombuffer(values, np.float32).reshape(-1, dim))


@torch.no_grad()
def take_vectors(table: torch.Tensor, words: Sequence[str], path: str) -> None:
    """
    Writes the vectors of a file into the rows of their words; other rows are unchanged. If a word is
    twice in the file, the first vector counts. Lines of other words are not checked. Vectors of another size,
    and a file with none of the words, are an `InputError`.

    *Shape:* `table` `(len(words), dim)`.
    """
    rows = {word: row for row, word in enumerate(words)}
    for line in _vector_lines(path):
        if line.first_cell in rows:
            word, vector = line.entry(table.size(1))
            if word in rows:
                table[rows.pop(word)] = torch.from_numpy(vector)
    if len(rows) == len(words):
        raise InputError(f"the file has none of the {len(words):,} words", where=path)
    logger.info("%s: vectors of %d of %d words", path, len(words) - len(rows), len(words))


def vector_size(path: str) -> int:
    return next(_vector_lines(path)).dim


class _VectorLine(NamedTuple):
    """A line of a file, split at its blanks: the word, or its first part, and all other cells."""

    file: Path
    line_number: int
    first_cell: str
    cells: list[str]
    dim: int
    """The size of the vectors, from the first line."""

    def entry(self, dim: int) -> tuple[str, np.ndarray]:
        """Joins the parts of the word, and reads its vector. *Shape:* `(dim,)`, float32."""
        parts, numbers = self.cells[:-dim], self.cells[-dim:]
        vector = _numbers(numbers)
        # A word with blanks may end in a number, but does not consist of numbers.
        of_another_size = len(numbers) < dim or (parts and _numbers(parts) is not None)
        if of_another_size or vector is None or not np.isfinite(vector).all():
            line = shorten(" ".join([self.first_cell, *self.cells]))
            what = f"{line!r} is not a word and {dim} finite numbers"
            raise InputError(what, where=self.file, line=self.line_number)
        return " ".join([self.first_cell, *parts]), vector


def vector_file_lines(path: str) -> Iterator[str]:
    """Yields lines with their ends. The numbers of a binary file become text only if asked for."""
    files = input_files(path)
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:5])
        what = f"there are {len(files)} files ({names})"
        raise InputError(what, where=path, remedy="name one of them, as ARCHIVE!FILE")
    lines = (text for _, text in _text_lines(files[0]))
    return (text if isinstance(text, BinaryLine) else f"{text}\n" for text in lines)


class BinaryLine(str):
    """A word and a blank. `rstrip` adds the numbers, as AllenNLP calls it for the words that it needs."""

    numbers: np.ndarray

    def rstrip(self, chars: str | None = None) -> str:
        return self + " ".join(map(repr, self.numbers.tolist()))


def _vector_lines(path: str) -> Iterator[_VectorLine]:
    for file in input_files(path):
        words = dim = count = 0
        for line_number, text in _text_lines(file):
            first_cell, *cells = text.rstrip().split(" ")  # of a binary line, all its numbers
            if not text:
                continue
            if line_number == 1 and len(cells) == 1 and first_cell.isdecimal() and cells[0].isdecimal():
                words, dim = int(first_cell), int(cells[0])
                continue
            count += 1
            dim = dim or len(cells) or 1
            yield _VectorLine(file, line_number, first_cell, cells, dim)
        if count < (words or 1):
            raise InputError(f"the file ends after {count:,} of {words or 1:,} vectors", where=file)


def _text_lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yields the numbered lines; in a binary file, a word is a line."""
    with errors_as(InputError, "cannot be read", UNREADABLE, where=file), open(file, "rb") as packed:
        content = decompressed(packed)
        words, dim = _binary_size(content)
        if dim:
            yield 1, f"{words} {dim}"
            yield from enumerate(_binary_lines(file, content, words, dim), start=2)
            return
    for line_number, text in read_lines(file):
        yield line_number, text.replace("\t", " ").rstrip()


def _binary_size(file: BinaryIO) -> tuple[int, int]:
    """Reads the first line of a binary file; returns its numbers of words and dimensions, 0 if it is text."""
    cells = file.readline(64).split()
    if len(cells) != 2 or not all(cell.isdigit() for cell in cells) or not int(cells[1]):
        return 0, 0
    sample = file.read(4096)
    file.seek(0)
    file.readline()
    try:
        is_text = "\0" not in codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        is_text = False
    return (0, 0) if is_text else (int(cells[0]), int(cells[1]))


def _binary_lines(file: Path, content: BinaryIO, words: int, dim: int) -> Iterator[BinaryLine]:
    buffer, start, size = b"", 0, 4 * dim
    for index in range(words):
        while (end := buffer.find(b" ", start)) < 0 or end + 1 + size > len(buffer):
            more = content.read(1 << 20)
            if not more:
                raise InputError(f"the file ends after {index:,} of {words:,} vectors", where=file)
            buffer, start = buffer[start:] + more, 0
        line = BinaryLine(buffer[start:end].lstrip(b"\n").decode("utf-8", "replace") + " ")
        line.numbers = np.frombuffer(buffer, "<f4", dim, end + 1)
        start = end + 1 + size
        yield line


def _numbers(cells: list[str]) -> np.ndarray | None:
    try:
        return np.array(cells, dtype=np.float32)
    except ValueError:
        return None
