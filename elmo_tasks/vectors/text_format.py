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

from elmo_tasks.common.files import UNREADABLE, unpacked
from elmo_tasks.data.input_files import InputError, input_files, read_lines

logger = logging.getLogger(__name__)


class WordTable(NamedTuple):
    """Words, the most frequent first, and their vectors. *Shape:* `(words, dim)`, float32."""

    words: list[str]
    vectors: np.ndarray


def write_table(path: Path, table: WordTable) -> None:
    """
    Writes a table in word2vec's format, which AllenNLP's `embedding` and gensim read, too. The file is packed
    by gzip if its name ends in `.gz`; equal tables give equal bytes.
    """
    with open(path, "wb") as raw:
        packed = path.suffix == ".gz"
        file = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) if packed else raw
        with file:
            file.write(f"{len(table.words)} {table.vectors.shape[1]}\n".encode())
            for word, vector in zip(table.words, table.vectors.tolist(), strict=True):
                file.write(f"{word} {' '.join(f'{value:.7g}' for value in vector)}\n".encode())


def read_table(path: str) -> WordTable:
    """
    Reads all words of a file, see `input_files`, and their vectors. Words with blanks are left out; the log
    counts them. Lines with other counts of numbers than the first, numbers that are not finite, and a file
    without vectors are an `InputError`.
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
    Writes the vectors of a file into the rows of their words; other rows stay as they are. If a word is
    twice in the file, the first vector counts. Lines of other words are not checked. Other than `dim` finite
    numbers, and a file with none of the words, are an `InputError`.

    *Shape:* `table` `(len(words), dim)`.
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
    """Returns the size of a file's vectors, from its first line; of an empty file an `InputError`."""
    for line in _lines(path):
        size = line.size()
        return len(line.cells) if size is None else size.dim
    raise InputError.at(path, found="no vector", expected="a word and its numbers a line")


class _Size(NamedTuple):
    """The first line of word2vec's format."""

    words: int
    dim: int


class _Line(NamedTuple):
    """A line of a file, split at its blanks: the word, or its first part, and all other cells."""

    file: Path
    line_number: int
    word: str
    cells: list[str]

    def size(self) -> _Size | None:
        if (
            self.line_number == 1
            and len(self.cells) == 1
            and self.word.isdecimal()
            and self.cells[0].isdecimal()
        ):
            return _Size(int(self.word), int(self.cells[0]))
        return None

    def entry(self, dim: int, *, expected: str) -> tuple[str, np.ndarray]:
        """Returns the whole word and its vector. *Shape:* `(dim,)`, float32."""
        parts, numbers = self.cells[:-dim], self.cells[-dim:]
        # A word with blanks may end in a number, but does not consist of numbers.
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
        return InputError.at(self.file, self.line_number, found=found, expected=expected)


def vector_file_lines(path: str) -> Iterator[str]:
    """
    Yields the lines of one file as text, with blanks between their cells. The numbers of a binary file become
    text only if they are asked for, see `BinaryLine`. Several files, as in an archive, are an `InputError`.
    """
    files = input_files(path)
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:5])
        raise InputError.at(path, found=f"{len(files)} files ({names})", expected="one, as ARCHIVE!FILE")
    return (text for _, text in _texts(files[0]))


class BinaryLine(str):
    """A word and a blank. `rstrip` adds the numbers, as AllenNLP calls it for the words that it needs."""

    numbers: np.ndarray

    def rstrip(self, chars: str | None = None) -> str:
        """Returns the whole line."""
        return self + " ".join(map(repr, self.numbers.tolist()))


def _lines(path: str) -> Iterator[_Line]:
    """Yields the lines that are not blank. A file with fewer lines than its first line says is an error."""
    for file in input_files(path):
        size = None
        count = -1
        for line_number, text in _texts(file):
            word, *cells = text.rstrip().split(" ")  # of a binary line, all its numbers
            line = _Line(file, line_number, word, cells)
            size = size or line.size()
            count += 1
            yield line
        if size is not None and size.words > count:
            found = f"{count:,} lines after the first one"
            raise InputError.at(file, found=found, expected=f"{size.words:,}, as it says")


def _texts(file: Path) -> Iterator[tuple[int, str]]:
    """Yields the numbered lines that are not blank; in a binary file, a word is a line."""
    with open(file, "rb") as packed:
        try:
            content = unpacked(packed)
            words, dim = _binary_size(content)
            if dim:
                yield 1, f"{words} {dim}"
                yield from enumerate(_binary_lines(file, content, words, dim), start=2)
                return
        except UNREADABLE as error:
            raise InputError.at(file, found=str(error), expected="a readable file") from error
    for line_number, text in read_lines(file):
        if text := text.replace("\t", " ").rstrip():
            yield line_number, text


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
                found = f"{index:,} words in the binary file"
                raise InputError.at(file, found=found, expected=f"{words:,}, as its first line says")
            buffer, start = buffer[start:] + more, 0
        line = BinaryLine(buffer[start:end].lstrip(b"\n").decode("utf-8", "replace") + " ")
        line.numbers = np.frombuffer(buffer, "<f4", dim, end + 1)
        start = end + 1 + size
        yield line


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
