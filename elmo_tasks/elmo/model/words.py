"""
Words as hashes, for a biLM whose token layer is a table of word vectors.

A word's id says which word it is, and nothing about a vocabulary: which words a biLM knows is its own affair
(`WordEncoder`). So indexing needs no file, and an archive stands alone.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import torch

from elmo_tasks.elmo.model.characters import BEGIN_SENTENCE, END_SENTENCE
from elmo_tasks.elmo.model.errors import FilePath, at_line

UNKNOWN = "<UNK>"
MARKERS = (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN)
"""What each vocabulary has beside the words of a text."""

_POSITIVE = (1 << 63) - 1


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


def padded_word_ids(sentences: Sequence[Sequence[str]]) -> torch.Tensor:
    """*Shape:* `(sentences, longest)`, `int64`, 0 behind the end of a sentence: what `BiLm` reads."""
    ids = np.zeros((len(sentences), max(map(len, sentences))), dtype=np.int64)
    for row, words in zip(ids, sentences, strict=True):
        row[: len(words)] = word_ids(words)
    return torch.from_numpy(ids)


def vocabulary(lines: Iterable[tuple[int, str]], *, where: FilePath) -> list[str]:
    """
    The words of a biLM's table in the order of its rows, from the numbered lines of bilm-tf's vocabulary
    file.

    # Raises
    `ElmoError`, with `where` and the line: an empty line, a word that was there before, no `<S>`, `</S>` or
    `<UNK>`.
    """
    line_of_word: dict[str, int] = {}
    for number, word in lines:
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
