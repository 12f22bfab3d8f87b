"""Text as tokenizers and models read it: composed letters (NFC), without invisible characters."""

import re
import unicodedata
from typing import NamedTuple

_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
"""
Soft hyphens, spaces without width, byte order marks and marks of direction. Not the joiners, which are a
part of words in Persian and Indic scripts, and of emoji.
"""
_JAMO = re.compile("[\u1100-\u11ff]+")


class Normalized(NamedTuple):
    """A text, and for each of its characters the characters `[start, end)` of the given text."""

    text: str
    origins: list[tuple[int, int]] | None
    """`None` if nothing has changed."""


def normalized(text: str) -> Normalized:
    if text.isascii() or (unicodedata.is_normalized("NFC", text) and not _INVISIBLE.search(text)):
        return Normalized(text, None)
    # (characters that are seen,): their places in the text
    places = [place for place, character in enumerate(text) if not _INVISIBLE.match(character)]
    seen = "".join(text[place] for place in places)
    parts: list[str] = []
    origins: list[tuple[int, int]] = []
    start = 0
    while start < len(seen):
        jamo = _JAMO.match(seen, start)
        end = jamo.end() if jamo else start + 1
        while end < len(seen) and unicodedata.category(seen[end])[0] == "M":
            end += 1
        part = unicodedata.normalize("NFC", seen[start:end])
        parts.append(part)
        origins += [(places[start], places[end - 1] + 1)] * len(part)
        start = end
    return Normalized("".join(parts), origins)
