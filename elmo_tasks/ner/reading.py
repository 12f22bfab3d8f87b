"""The words of a sentence as a model of entities reads them. Its answers have the words that were given."""

import re
import unicodedata
from collections.abc import Mapping, Sequence

from elmo_tasks.data.normalization import normalized

_SMILEY = ":)"
"""In place of emoji, which the training text hardly has; else they become a part of names."""
_FIRST_EMOJI = "\u2600"
_OF_EMOJI = frozenset(("So", "Sk", "Mn", "Me", "Cf"))
"""Symbols, and what changes their colour or joins them."""
_SHORT = 3
"""Unknown words in capitals of as many letters are taken for abbreviations, and stay."""
_RUN = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]{1,2}\b)?")


def as_read(words: Sequence[str], ranks: Mapping[str, int] | None = None) -> list[str]:
    """
    Returns normalized words, and a smiley for emoji. With `ranks` of a vocabulary, the words of a sentence
    without a small letter have the case that is the most frequent for each; unknown ones begin with a
    capital.
    """
    if ranks is None and "".join(words).isascii():
        return list(words)
    read = [normalized(word).text or word for word in words]
    if ranks is not None and _in_capitals(read):
        read = [_in_usual_case(word, ranks) for word in read]
    return [_SMILEY if _is_emoji(word) else word for word in read]


def _in_capitals(words: Sequence[str]) -> bool:
    return not any(map(_has_small_letter, words)) and any(sum(map(str.isupper, word)) > 1 for word in words)


def _has_small_letter(word: str) -> bool:
    return any(map(str.islower, word))


def _in_usual_case(word: str, ranks: Mapping[str, int]) -> str:
    begins_with_capital = _RUN.sub(lambda run: run.group().capitalize(), word)
    known = [form for form in (word.lower(), begins_with_capital, word) if form in ranks]
    if known:
        return min(known, key=ranks.__getitem__)
    return word if sum(map(str.isalpha, word)) <= _SHORT else begins_with_capital


def _is_emoji(word: str) -> bool:
    if word.isascii():
        return False
    return max(word) >= _FIRST_EMOJI and all(unicodedata.category(sign) in _OF_EMOJI for sign in word)
