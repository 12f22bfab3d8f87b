"""
Ids of words: as UTF-8 bytes, as Unicode characters, or as a hash.

**UTF-8 bytes**, the official encoding of bilm-tf (its `UnicodeCharsVocabulary`). A word is its bytes between
a begin and an end mark, padded to 50 positions. The ids of the network are shifted by one, so that 0 is left
for "no word":

| id | meaning |
| --- | --- |
| 0 | no word: a position after the end of a sentence |
| 1 to 256 | the byte 0 to 255 |
| 257, 258 | the character inside `<S>`, and inside `</S>`: the boundary tokens of a sentence |
| 259, 260 | begin and end of a word |
| 261 | padding after the end of a word |

**Unicode characters**, for a biLM with a dictionary of characters: ELMoForManyLangs. Marks and padding have
the same ids, and a code point comes after them all.

**Hashes**, for a biLM whose token layer is a table of word vectors.

An id says which character or word it is, and nothing about a dictionary: the biLM holds the entries that it
knows (`UnicodeEncoder`, `WordEncoder`). So indexing needs no file, and an archive is self-contained.
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import torch

from elmo_tasks.common.errors import ElmoError, FilePath

CHARACTERS_PER_WORD = 50
NUM_CHARACTERS = 262
"""Ids 0 to 261: 261 rows in the official weights, and the zero row of "no word"."""
BEGIN_SENTENCE, END_SENTENCE, UNKNOWN = "<S>", "</S>", "<UNK>"
SPECIAL_TOKENS = (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN)
_NO_WORD = "!!!MAXTERMID"
"""A line of some vocabularies that bilm-tf passes over: it has no row."""
BEGIN_TEXT, END_TEXT = "<bos>", "<eos>"
"""The boundary tokens of a sentence in ELMoForManyLangs."""
BEGIN_WORD, END_WORD, PADDING_ID = 259, 260, 261
BOUNDARY_IDS = 257, 258
SPECIAL_IDS = {
    **dict(zip((BEGIN_TEXT, END_TEXT), BOUNDARY_IDS, strict=True)),
    # The two are swapped in the weights, as the original's own reader swaps them.
    "<eow>": BEGIN_WORD,
    "<bow>": END_WORD,
    "<pad>": PADDING_ID,
}
"""The ids of the entries of a dictionary that are not characters."""

_ID_OF_BOUNDARY = dict(zip((BEGIN_SENTENCE, END_SENTENCE), BOUNDARY_IDS, strict=True))
_AS_BYTES = [np.int16(character).tobytes() for character in range(NUM_CHARACTERS)]
"""The bytes of each id in an `int16` array, so that a word, and a sentence, is one `join`."""
_AFTER_A_WORD = [
    _AS_BYTES[END_WORD] + _AS_BYTES[PADDING_ID] * padding for padding in range(CHARACTERS_PER_WORD - 1)
]
_POSITIVE = (1 << 63) - 1


def character_ids(words: Iterable[str]) -> np.ndarray:
    """
    Returns the official ids, also of the empty word. Words of more than 48 bytes are cut, and `<S>` and
    `</S>` are the boundaries. *Shape:* `(len(words), 50)`, `int16`, read-only.
    """
    encoded = b"".join(map(_encode, words))
    return np.frombuffer(encoded, dtype=np.int16).reshape(-1, CHARACTERS_PER_WORD)


@lru_cache(maxsize=1 << 17)
def _encode(word: str) -> bytes:
    """Returns one word as the bytes of 50 `int16`."""
    if word in _ID_OF_BOUNDARY:
        inner = [_AS_BYTES[_ID_OF_BOUNDARY[word]]]
    else:
        # As in the official code, characters without UTF-8 bytes (lone surrogates) are left out, and only
        # 48 bytes fit between the marks; a cut may split a multi-byte character.
        encoded = word.encode("utf-8", "ignore")[: CHARACTERS_PER_WORD - 2]
        inner = [_AS_BYTES[byte + 1] for byte in encoded]
    return _AS_BYTES[BEGIN_WORD] + b"".join(inner) + _AFTER_A_WORD[CHARACTERS_PER_WORD - 2 - len(inner)]


def shortened(ids: torch.Tensor, length: int) -> torch.Tensor:
    """Cuts words, for a biLM of fewer characters. *Shape:* `(words, 50)` to `(words, length)`."""
    if length == ids.size(1):
        return ids
    start, last = ids[:, : length - 1], ids[:, length - 1 : length]
    goes_on = (last > 0) & (last != END_WORD) & (last != PADDING_ID)
    return torch.cat([start, last.masked_fill(goes_on, END_WORD)], dim=1)


def unicode_ids(words: Iterable[str]) -> np.ndarray:
    """
    Returns the ids of characters. Words of more than 48 are cut, and `<bos>` and `<eos>` are the boundaries.
    *Shape:* `(len(words), 50)`, `int32`, read-only.
    """
    encoded = b"".join(map(_encode_unicode, words))
    return np.frombuffer(encoded, dtype=np.int32).reshape(-1, CHARACTERS_PER_WORD)


@lru_cache(maxsize=1 << 17)
def _encode_unicode(word: str) -> bytes:
    """Returns one word as the bytes of 50 `int32`."""
    inner = [SPECIAL_IDS[word]] if word in (BEGIN_TEXT, END_TEXT) else map(character_id, word)
    ids = [BEGIN_WORD, *list(inner)[: CHARACTERS_PER_WORD - 2], END_WORD]
    return np.array(ids + [PADDING_ID] * (CHARACTERS_PER_WORD - len(ids)), dtype=np.int32).tobytes()


def character_id(character: str) -> int:
    """Returns the id of one character: its code point, after all marks."""
    return NUM_CHARACTERS + ord(character)


def word_ids(words: Iterable[str]) -> np.ndarray:
    """Returns a hash of each word; 0 is left for "no word". *Shape:* `(len(words),)`, `int64`, positive."""
    return np.fromiter(map(_hash, words), dtype=np.int64)


@lru_cache(maxsize=1 << 17)
def _hash(word: str) -> int:
    digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") & _POSITIVE or 1


def vocabulary(lines: Iterable[tuple[int, str]], *, where: FilePath) -> list[str]:
    """
    Returns the words of a biLM's table in the order of its rows, from the numbered lines of bilm-tf's
    vocabulary file, without `_NO_WORD`. An empty line, a repeated word, and a missing `<S>`, `</S>` or
    `<UNK>` are an `ElmoError`, with `where` and the line.
    """
    line_of_word: dict[str, int] = {}
    for line_number, line in lines:
        # bilm-tf strips its lines. No token begins or ends with a blank, but it may hold other white space.
        word = line.strip(" \t")
        if not word.strip() or word in line_of_word:
            problem = (
                f"{word!r} is also in line {line_of_word[word]}" if word.strip() else "the line is empty"
            )
            raise ElmoError(
                problem, where=where, line=line_number, remedy="each line needs a word of its own"
            )
        if word != _NO_WORD:
            line_of_word[word] = line_number
    if missing := [token for token in SPECIAL_TOKENS if token not in line_of_word]:
        raise ElmoError(f"the lines {', '.join(missing)} are missing", where=where)
    return list(line_of_word)
