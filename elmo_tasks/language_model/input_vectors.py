"""Word vectors as text, in the layout of GloVe, fastText and word2vec: what a biLM may begin with."""

import logging
from collections.abc import Sequence

import torch

from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.static_vectors.text_vectors import is_header, is_number

logger = logging.getLogger(__name__)


@torch.no_grad()
def take_vectors(table: torch.Tensor, words: Sequence[str], path: str) -> None:
    """
    Writes the vectors that a file has of `words` into their rows; the other rows stay as they are.

    A line is a word and its numbers, between blanks; word2vec's first line, how many words and numbers there
    are, may be missing. Of a word that comes twice the first vector counts. Words with blanks are left out.

    *Shape:* `table` `(len(words), dim)`.

    # Parameters

    path : path or URL; plain or gzip.

    # Raises
    `InputError`, with the file and the line: not `dim` numbers, something that is no number, none of the
    words, and whatever reading raises.
    """
    dim = table.size(1)
    rows = {word: row for row, word in enumerate(words)}
    for file in input_files(path):
        for line, text in read_lines(file):
            word, *numbers = text.rstrip().split(" ")
            if line == 1 and is_header(word, numbers):
                if int(numbers[0]) != dim:
                    raise _wrong_size(file, line, int(numbers[0]), dim)
            elif word in rows:
                if len(numbers) > dim and not is_number(numbers[-dim - 1]):
                    continue  # the word goes on behind a blank
                if len(numbers) != dim:
                    raise _wrong_size(file, line, len(numbers), dim)
                try:
                    vector = [float(number) for number in numbers]
                except ValueError as error:
                    raise InputError.at(file, line, found=str(error), expected=f"{dim} numbers") from error
                table[rows.pop(word)] = torch.tensor(vector)
    if len(rows) == len(words):
        raise InputError.at(path, found=f"none of {len(words):,} words", expected="vectors of some of them")
    logger.info("%s: vectors of %d of %d words", path, len(words) - len(rows), len(words))


def _wrong_size(file: object, line: int, found: int, dim: int) -> InputError:
    return InputError.at(str(file), line, found=f"{found} numbers", expected=f"{dim}, the projection_dim")
