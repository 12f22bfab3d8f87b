"""
Sentences as trees, whose phrases have a sentiment: the Stanford Sentiment Treebank and the like.

Every phrase of a sentence is in brackets, with its label from 0 (very negative) to 4:

    (3 (2 It) (4 (2 's) (3 good)))

Format: the files of Socher et al. 2013, https://nlp.stanford.edu/sentiment/, in the brackets of the Penn
Treebank.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from elmo_tasks.data.formats import CERTAIN, FileSample, Format
from elmo_tasks.data.input_files import InputError, nonblank_lines, shorten
from elmo_tasks.data.tokenization import Words

NUM_LABELS = 5
_LABELS = {str(label): label for label in range(NUM_LABELS)}
_TOKEN = re.compile(r"[()]|[^() \t]+")
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
) -> Iterator[Tree]:
    """
    Yields the tree of each line that is not blank. With `split`, a line that begins with no bracket is a
    plain sentence, and its words are one phrase.

    # Raises
    `InputError`, with the line: it is not a tree.
    """
    for line_number, line in nonblank_lines(path, encoding):
        if split is not None and not line.lstrip().startswith("("):
            words = split(line).words
            yield Tree(words, [Phrase(0, 0, len(words))])
            continue
        try:
            yield parse(line)
        except InputError as error:
            error.where, error.line = str(path), line_number
            raise


# The tokens that `parse` may expect, as errors name them
_TREE = "("
_LABEL = f"a label from 0 to {NUM_LABELS - 1}"
_CONTENT = "a word or ("
_CLOSING = ")"
_MORE = "( or )"
_NOTHING = "the end of the line"


def parse(line: str) -> Tree:
    r"""
    Returns the tree in a line. Blanks and tabs separate. The treebank's escapes of brackets, slashes and
    asterisks in words (`-LRB-`, `\/`, `\*`) are decoded.

    # Raises
    `InputError`: the line is not exactly one tree.
    """
    words: list[str] = []
    # For each phrase, in the order of the opening brackets
    labels: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    # For each open bracket, the index of its phrase, and the column
    opened: list[tuple[int, int]] = []
    expected = _TREE
    for match in _TOKEN.finditer(line):
        token = match[0]
        if token == "(" and (expected is _CONTENT or expected is _MORE or expected is _TREE):
            opened.append((len(labels), match.start() + 1))
            expected = _LABEL
        elif token == ")" and (expected is _CLOSING or expected is _MORE):
            ends[opened.pop()[0]] = len(words)
            expected = _MORE if opened else _NOTHING
        elif expected is _LABEL and token in _LABELS:
            labels.append(_LABELS[token])
            starts.append(len(words))
            ends.append(len(words))
            expected = _CONTENT
        elif expected is _CONTENT and token != ")":
            words.append(_BRACKETS.get(token) or token.replace("\\/", "/").replace("\\*", "*"))
            expected = _CLOSING
        else:
            problem = f"{shorten(token)!r} in column {match.start() + 1} is not {expected}"
            raise InputError(f"{problem}, which the tree needs there")
    if expected is not _NOTHING:
        where = f", where the bracket of column {opened[-1][1]} is open" if opened else ""
        raise InputError(f"the line ends{where}, but the tree needs {expected}")
    return Tree(words, list(map(Phrase, labels, starts, ends)))


def _detect_trees(sample: FileSample) -> float:
    first = sample.lines[0] if sample.lines else ""
    return CERTAIN if re.match(r"\s*\(\s*[0-4]\s*[(\w]", first) else 0


FORMATS = (Format("trees", _detect_trees, read_trees),)
