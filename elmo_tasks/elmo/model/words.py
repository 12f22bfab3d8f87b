"""
Words as hashes, for a biLM whose token layer is a table of word vectors.

A word's id says which word it is, and nothing about a vocabulary: which words a biLM knows is its own affair
(`WordEncoder`). So indexing needs no file, and an archive stands alone.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from hashlib import blake2b

import numpy as np
import torch

from elmo_tasks.elmo.model.characters import BEGIN_SENTENCE, END_SENTENCE
from elmo_tasks.elmo.model.errors import FilePath, at_line

UNKNOWN = "<UNK>"
MARKERS = (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN)
"""What each vocabulary has beside the words of a text."""

_POSITIVE = (1 << 63) - 1
_MULTIPLIER = 0x5851F42D4C957F2D
"""The multiplier of Knuth's 64-bit linear congruential generator."""


@lru_cache(maxsize=1 << 17)
def _hash(word: str) -> int:
    digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") & _POSITIVE or 1


def word_ids(words: Iterable[str]) -> np.ndarray:
    """
    A hash of each word: any string has one, and 0 is left for "no word here".

    *Shape:* `(len(words),)`, `int64`, positive.
    """
    return np.fromiter(map(_hash, words), dtype=np.int64)


def row_keys(rows: torch.Tensor) -> torch.Tensor:
    """
    A 64-bit key of each row, alike for rows that are.

    *Shape:* ids `(rows, columns)` to `(rows,)`, `int64`.
    """
    return (rows.long() * _powers(rows.size(1)).to(rows.device)).sum(dim=1)


@cache
def _powers(columns: int) -> torch.Tensor:
    """Powers of the multiplier, modulo 2^64, as the signed integers that PyTorch has."""
    powers = [pow(_MULTIPLIER, exponent, 1 << 64) for exponent in range(columns)]
    return torch.tensor([power - (1 << 64) if power >> 63 else power for power in powers], device="cpu")


def vocabulary(lines: Iterable[tuple[int, str]], *, where: FilePath) -> list[str]:
    """
    The words of a biLM's table in the order of its rows, from the numbered lines of bilm-tf's vocabulary
    file.

    # Raises
    `ElmoError`, with `where` and the line: an empty line, a word that was there before, no `<S>`, `</S>` or
    `<UNK>`.
    """
    line_of_word: dict[str, int] = {}
    for number, line in lines:
        # bilm-tf strips its lines. No token begins or ends with a blank; other white space may stand in one.
        word = line.strip(" \t")
        if not word.strip():
            raise at_line(where, number, found="an empty line", expected="a word")
        if word in line_of_word:
            repeated = f"{word!r}, which stands in line {line_of_word[word]} too"
            raise at_line(where, number, found=repeated, expected="each word once")
        line_of_word[word] = number
    for marker in MARKERS:
        if marker not in line_of_word:
            raise at_line(where, None, found=f"no {marker}", expected=f"the lines {', '.join(MARKERS)}")
    return list(line_of_word)
