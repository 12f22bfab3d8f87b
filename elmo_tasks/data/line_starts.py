"""Where the sentences of a text with several lines begin; exported models have this file, too."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

_LINE_ENDS = "\n\r\v\f\x85\u2028\u2029"
_LINE = re.compile(rf"[^\t{_LINE_ENDS}]+")
_LINE_END = re.compile(rf"\r\n|[{_LINE_ENDS}]")
_ITEM = re.compile(r"([-*+>\u2022-\u2043\u25a0-\u25ff]|\(?(\d{1,3}|[a-z])[.)])\s")
_SENTENCE_END = re.compile(r"(?<=\w{4})[.!?]+[\"')\]]*(\s|$)")
_WRAPPED = 60
"""The characters of a line of prose that shows by its length that it is wrapped."""


def line_starts(text: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """
    Returns the first word of a text, of each later paragraph, and of each line or cell of a list. A line that
    continues the prose of the line before is not among them.
    """
    starts = [bisect_left(offsets, (start,)) for start in _line_starts(text)]
    return sorted({0, *starts} - {len(offsets)})


def _line_starts(text: str) -> Iterator[int]:
    """Yields, from the last to the first, the start of each line or cell that begins a sentence."""
    lines = [line for line in _LINE.finditer(text) if not line.group().isspace()]
    is_closed = False  # by the end of a sentence further down in the paragraph
    for before, line in reversed(list(pairwise(lines))):
        is_closed = is_closed or bool(_SENTENCE_END.search(line.group()))
        gap = text[before.end() : line.start()]
        ends_paragraph = bool(set(gap) & set("\t\u2029")) or len(_LINE_END.findall(gap)) > 1
        if ends_paragraph or not _continues(before.group().strip(), line.group().strip(), is_closed):
            yield line.start()
        is_closed = is_closed and not ends_paragraph


def _continues(before: str, line: str, is_closed: bool) -> bool:
    """Returns whether a line continues the one before: it starts in lower case, or follows wrapped prose."""
    is_prose = any(len(word) > 3 and word.islower() for word in before.split())
    is_wrapped = is_prose and (is_closed or len(before) >= _WRAPPED)
    return not _ITEM.match(line) and (line[0].islower() or is_wrapped)
