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

Words as Unicode characters, for a biLM whose characters are those of a dictionary: ELMoForManyLangs.

A character's id says which one it is, and nothing about a dictionary: which characters a biLM knows is its
own affair (`UnicodeEncoder`). So indexing needs no file, and an archive stands alone. Marks and filling have
the ids of `characters.py`; a code point comes after them all.

Words as hashes, for a biLM whose token layer is a table of word vectors.

A word's id says which word it is, and nothing about a vocabulary: which words a biLM knows is its own affair
(`WordEncoder`). So indexing needs no file, and an archive stands alone.
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import torch

from elmo_tasks.common.errors import ElmoError, FilePath

# ==== elmo.model.characters
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


# ==== elmo.model.unicode_characters
BEGIN_TEXT, END_TEXT = "<bos>", "<eos>"
"""The borders of a sentence, which are words."""
MARK_IDS = {
    **dict(zip((BEGIN_TEXT, END_TEXT), SENTENCE_MARK_IDS, strict=True)),
    # The two are exchanged in the weights, as the original's own reader exchanges them.
    "<eow>": BEGIN_WORD,
    "<bow>": END_WORD,
    "<pad>": FILLING,
}
"""Of a dictionary's entries that are no characters, the id that asks for them."""


def character_id(character: str) -> int:
    """The id of one character: its code point behind all marks."""
    return NUM_CHARACTERS + ord(character)


@lru_cache(maxsize=1 << 17)
def _encode_unicode(word: str) -> bytes:
    """One word as the bytes of 50 `int32`."""
    inner = [MARK_IDS[word]] if word in (BEGIN_TEXT, END_TEXT) else map(character_id, word)
    ids = [BEGIN_WORD, *list(inner)[: CHARACTERS_PER_WORD - 2], END_WORD]
    return np.array(ids + [FILLING] * (CHARACTERS_PER_WORD - len(ids)), dtype=np.int32).tobytes()


def unicode_ids(words: Iterable[str]) -> np.ndarray:
    """
    The ids of the characters of `words`. Any string has a defined result: `<bos>` and `<eos>` are the borders
    of a sentence, a word longer than 48 characters is cut.

    *Shape:* `(len(words), 50)`, `int32`, read-only.
    """
    return np.frombuffer(b"".join(map(_encode_unicode, words)), dtype=np.int32).reshape(
        -1, CHARACTERS_PER_WORD
    )


# ==== elmo.model.words
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
            raise ElmoError.at(where, number, found="an empty line", expected="a word")
        if word in line_of_word:
            repeated = f"{word!r}, which stands in line {line_of_word[word]} too"
            raise ElmoError.at(where, number, found=repeated, expected="each word once")
        line_of_word[word] = number
    for marker in MARKERS:
        if marker not in line_of_word:
            raise ElmoError.at(where, None, found=f"no {marker}", expected=f"the lines {', '.join(MARKERS)}")
    return list(line_of_word)
