"""
Sentences as trees, whose phrases have a sentiment from 0 (very negative) to 4: `(3 (2 It) (3 works))`.

Format: the files of Socher et al. 2013, https://nlp.stanford.edu/sentiment/, in the brackets of the Penn
Treebank.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from elmo_tasks.data.formats import Fit, Format
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.input_files import InputError, nonblank_lines, shorten, value_or_error
from elmo_tasks.data.tokenization import Words

_PART = re.compile(r"[ \t]*(?:\([ \t]*(?P<label>[0-4])(?:[ \t]+(?P<word>[^() \t]+)[ \t]*\)|(?=[ \t]*\())|\))")
"""A phrase of one word, the start of a longer one, or its end."""
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class Phrase(NamedTuple):
    """The label of the words `[start, end)`."""

    label: int
    start: int
    end: int


class Tree(NamedTuple):
    """The words of a sentence and its phrases: first the whole sentence, each phrase before its parts."""

    words: list[str]
    phrases: list[Phrase]


def read_trees(
    path: Path, *, encoding: str | None = None, split: Callable[[str], Words] | None = None
) -> Iterator[Tree | InputError]:
    """
    Yields the tree of each line that is not blank, or the error of a line that is not a tree. With `split`, a
    line that begins with no bracket is a plain sentence, and its words are one phrase.
    """
    for line_number, line in nonblank_lines(path, encoding):
        if split is not None and not line.lstrip().startswith("("):
            words = split(line).words
            yield Tree(words, [Phrase(0, 0, len(words))])
        else:
            yield value_or_error(path, line_number, parse, line)


def parse(line: str) -> Tree:
    r"""
    Returns the tree in a line; a line that is not exactly one is an `InputError`. The treebank's escapes of
    brackets, slashes and asterisks in words (`-LRB-`, `\/`, `\*`) are decoded.
    """
    words: list[str] = []
    # Label, start and end of each phrase, in the order of the opening brackets
    phrases: list[list[int]] = []
    opened: list[list[int]] = []
    position, end = 0, len(line.rstrip(" \t"))
    while position < end and (opened or not phrases):
        part = _PART.match(line, position)
        if part is None or not (part["label"] or opened):
            break
        if part["label"]:
            opened.append([int(part["label"]), len(words), len(words)])
            phrases.append(opened[-1])
        if word := part["word"]:
            words.append(_BRACKETS.get(word) or word.replace("\\/", "/").replace("\\*", "*"))
        if word or not part["label"]:
            opened.pop()[2] = len(words)
        position = part.end()
    if position < end or opened or not words:
        rest = shorten(line[position:end].lstrip(" \t"))
        place = f"{rest!r} in column {position + 1}" if rest else "the end of the line"
        problem = f"the tree is not complete, or is damaged at {place}"
        raise InputError(problem, remedy="write one tree a line, such as (3 (2 It) (4 works)), labels 0 to 4")
    return Tree(words, [Phrase(*each) for each in phrases])


def _fit(sample: Sample) -> Fit:
    first = sample.lines[0] if sample.lines else ""
    return Fit.CERTAIN if re.match(r"\s*\(\s*[0-4]\s*[(\w]", first) else Fit.NO


FORMATS = (Format("trees", _fit, read_trees),)
