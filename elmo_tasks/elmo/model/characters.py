"""
Words as characters: the official encoding of bilm-tf (its `UnicodeCharsVocabulary`).

A word is its UTF-8 bytes between a begin and an end mark, filled up to 50 positions. Ids as they reach
the network are shifted by one, so that 0 is left for "no word here":

| id | meaning |
| --- | --- |
| 0 | no word: a position behind the end of a sentence |
| 1 to 256 | the byte 0 to 255 |
| 257, 258 | the marks inside the words `<S>` and `</S>`, the borders of a sentence |
| 259, 260 | begin and end of a word |
| 261 | filling behind the end of a word |
"""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import torch

CHARACTERS_PER_WORD = 50
NUM_CHARACTERS = 262
"""Ids 0 to 261: 261 rows in the official weights, and the zero row of "no word"."""

BEGIN_SENTENCE = "<S>"
END_SENTENCE = "</S>"

BEGIN_WORD, END_WORD, FILLING = 259, 260, 261
SENTENCE_MARK_IDS = 257, 258
_SENTENCE_MARKS = dict(zip((BEGIN_SENTENCE, END_SENTENCE), SENTENCE_MARK_IDS, strict=True))


_AS_BYTES = [np.int16(number).tobytes() for number in range(NUM_CHARACTERS)]
"""Each id as it lies in an `int16` array; so that a word, and a sentence, is one `join`."""
_AFTER_A_WORD = [
    _AS_BYTES[END_WORD] + _AS_BYTES[FILLING] * filling for filling in range(CHARACTERS_PER_WORD - 1)
]


@lru_cache(maxsize=1 << 17)
def _encode(word: str) -> bytes:
    """One word as the bytes of 50 `int16`."""
    if word in _SENTENCE_MARKS:
        inner = [_AS_BYTES[_SENTENCE_MARKS[word]]]
    else:
        # Like the official code: what UTF-8 has no bytes for (lone surrogates) is left out, and only
        # 48 bytes fit between the marks; a cut may split a multi-byte character.
        encoded = word.encode("utf-8", "ignore")[: CHARACTERS_PER_WORD - 2]
        inner = [_AS_BYTES[byte + 1] for byte in encoded]
    return _AS_BYTES[BEGIN_WORD] + b"".join(inner) + _AFTER_A_WORD[CHARACTERS_PER_WORD - 2 - len(inner)]


def character_ids(words: Iterable[str]) -> np.ndarray:
    """
    The official character ids of `words`.

    Any string has a defined result: the empty one is the begin and the end mark alone, `<S>` and `</S>`
    are the sentence borders, a word longer than 48 UTF-8 bytes is cut.

    *Shape:* `(len(words), 50)`, `int16`, read-only.
    """
    encoded = b"".join(map(_encode, words))
    return np.frombuffer(encoded, dtype=np.int16).reshape(-1, CHARACTERS_PER_WORD)


def shortened(ids: torch.Tensor, length: int) -> torch.Tensor:
    """
    Words as they are for a biLM that reads fewer characters of each: cut before the end mark.

    *Shape:* `(words, 50)` to `(words, length)`.
    """
    if length == ids.size(1):
        return ids
    start, last = ids[:, : length - 1], ids[:, length - 1 : length]
    goes_on = (last > 0) & (last != END_WORD) & (last != FILLING)
    return torch.cat([start, last.masked_fill(goes_on, END_WORD)], dim=1)
