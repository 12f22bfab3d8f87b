"""Word vectors as text: what word2vec, GloVe, fastText and `allennlp elmo vectors` write."""

import logging
from array import array
from collections.abc import Iterator

import numpy as np

from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.static_vectors.word_table import WordTable

logger = logging.getLogger(__name__)


def read_table(path: str) -> WordTable:
    """
    A line is a word and its numbers, between blanks; word2vec's first line, how many words and numbers there
    are, may be missing. Words with blanks are left out, and counted.

    # Parameters

    path : path or URL, plain or gzip.

    # Raises
    `InputError`, with the file and, where it is one, the line: another number of numbers than before,
    something that is no finite number, no vector at all, and whatever reading raises.
    """
    words: list[str] = []
    values = array("f")
    with_blanks = 0
    for word, vector in _vectors(path):
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


def dimensions(path: str) -> int:
    """
    Of the vectors of a file: from word2vec's first line, or the numbers of the first word.

    # Raises
    `InputError`: the file is empty; and whatever reading raises.
    """
    for file in input_files(path):
        for _, text in read_lines(file):
            word, *cells = text.rstrip().split(" ")
            return int(cells[0]) if is_header(word, cells) else len(cells)
    raise InputError.at(path, found="no vector", expected="a word and its numbers a line")


def is_header(word: str, cells: list[str]) -> bool:
    """Whether a first line of these cells says how many words and numbers there are."""
    return len(cells) == 1 and word.isdecimal() and cells[0].isdecimal()


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _vectors(path: str) -> Iterator[tuple[str, np.ndarray]]:
    """Words and their vectors, all of one size."""
    dim: int | None = None
    for file in input_files(path):
        for line, text in read_lines(file):
            word, *cells = text.rstrip().split(" ")
            if line == 1 and is_header(word, cells):
                continue
            dim = dim or len(cells) or 1
            blanks, numbers = cells[:-dim], cells[-dim:]
            if len(numbers) < dim or (blanks and is_number(blanks[-1])):
                raise InputError.at(file, line, found=f"{len(cells)} numbers", expected=f"{dim}, with a word")
            try:
                vector = np.array(numbers, dtype=np.float32)
            except ValueError as error:
                raise InputError.at(file, line, found=str(error), expected=f"{dim} numbers") from error
            if not np.isfinite(vector).all():
                raise InputError.at(file, line, found="no finite number", expected=f"{dim} numbers")
            yield " ".join([word, *blanks]), vector
