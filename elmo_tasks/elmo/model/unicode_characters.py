"""
Words as Unicode characters, for a biLM whose characters are those of a dictionary: ELMoForManyLangs.

A character's id says which one it is, and nothing about a dictionary: which characters a biLM knows is its
own affair (`UnicodeEncoder`). So indexing needs no file, and an archive stands alone. Marks and filling have
the ids of `characters.py`; a code point comes after them all.
"""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from elmo_tasks.elmo.model.characters import (
    BEGIN_WORD,
    CHARACTERS_PER_WORD,
    END_WORD,
    FILLING,
    NUM_CHARACTERS,
    SENTENCE_MARK_IDS,
)

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
def _encode(word: str) -> bytes:
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
    return np.frombuffer(b"".join(map(_encode, words)), dtype=np.int32).reshape(-1, CHARACTERS_PER_WORD)
