"""
Sentiment trees: every phrase of a sentence in brackets, with its label from 0 (very negative) to 4.

    (3 (2 It) (4 (2 's) (3 good)))

Format: the files of the Stanford Sentiment Treebank (Socher et al. 2013), https://nlp.stanford.edu/sentiment/,
in the brackets of the Penn Treebank.
"""

import re
from typing import NamedTuple

from allennlp.common.checks import ConfigurationError

NUM_LABELS = 5

_LABELS = {str(label): label for label in range(NUM_LABELS)}
_TOKEN = re.compile(r"[()]|[^() \t]+")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class Phrase(NamedTuple):
    """A label of the words `[start, end)`."""

    label: int
    start: int
    end: int


class Tree(NamedTuple):
    """The words of a sentence, and its phrases, each before those inside it: the first is the sentence."""

    words: list[str]
    phrases: list[Phrase]


class TreeError(ConfigurationError):
    """A line that is no tree. `column`: of the character that is wrong, from 1."""

    def __init__(self, column: int, *, found: str, expected: str) -> None:
        super().__init__(f"column {column}: found {found}, expected {expected}")
        self.column, self.found, self.expected = column, found, expected


# What may come next, in the words of an error.
_TREE = "("
_LABEL = f"a label from 0 to {NUM_LABELS - 1}"
_CONTENT = "a word or ("
_CLOSING = ")"
_MORE = "( or )"
_NOTHING = "the end of the line"


def parse(line: str) -> Tree:
    """
    The tree in a line. Blanks and tabs separate; what a treebank writes for brackets, slashes and asterisks
    in words (`-LRB-`, `\\/`, `\\*`) is taken back.

    # Raises
    `TreeError`: anything but one whole tree.
    """
    words: list[str] = []
    # Of each phrase, in the order of the opening brackets
    labels: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    # Of each open bracket the place in these lists, and the column
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
            words.append(_unescape(token))
            expected = _CLOSING
        else:
            kind = "the label " if expected is _LABEL and token not in "()" else ""
            raise TreeError(match.start() + 1, found=f"{kind}{token[:80]!r}", expected=expected)
    if expected is not _NOTHING:
        where = f", with the bracket of column {opened[-1][1]} open" if opened else ""
        raise TreeError(len(line) + 1, found=f"the end of the line{where}", expected=expected)
    return Tree(words, list(map(Phrase, labels, starts, ends)))


def _unescape(word: str) -> str:
    return _BRACKETS.get(word) or word.replace("\\/", "/").replace("\\*", "*")
