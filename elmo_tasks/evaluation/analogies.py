"""Word analogies, a is to b as c is to d, by the two methods of Levy and Goldberg (2014)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.nn import functional as F

from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.vectors.word_vectors import WordVectors

METHODS = ("3CosAdd", "3CosMul")

_EPSILON = 0.001
"""The epsilon of 3CosMul, as in the paper, section 6."""
_NUMBERS = 1 << 22
"""
Cosines that are computed at once, so that memory grows neither with the questions nor with the vocabulary.
"""


class Question(NamedTuple):
    section: str
    words: tuple[str, str, str, str]


class Accuracy(NamedTuple):
    section: str
    method: str
    correct: int
    covered: int
    """Questions of which all four words are known, and in the vocabulary."""
    total: int


def read_questions(path: str) -> list[Question]:
    """
    The layout of Google's questions-words.txt: lines `: section`, and below each its questions of four words.

    # Raises
    `InputError`, with the file and, where it is one, the line: no question, one before the first section, or
    not four words, and whatever reading raises.
    """
    questions = []
    for file in input_files(path):
        section = None
        for line, text in read_lines(file):
            words = text.split()
            if text.startswith(":"):
                section = text[1:].strip()
            elif words:
                if section is None or len(words) != 4:
                    expected = "a line `: section` before it" if section is None else "four words"
                    raise InputError.at(file, line, found=repr(text), expected=expected)
                questions.append(Question(section, (words[0], words[1], words[2], words[3])))
    if not questions:
        raise InputError.at(path, found="no question", expected="lines of four words below `: section`")
    return questions


def accuracies(
    vectors: WordVectors, words: Sequence[str], questions: Sequence[Question], vocabulary: Sequence[str]
) -> list[Accuracy]:
    """
    The results of each method: for each section, then `semantic` and `syntactic` (sections that begin with
    `gram`) and `all`.

    # Parameters

    words : of the vectors' rows, all of the questions and of the vocabulary among them.
    vocabulary : the words among which an answer is looked for. Those that differ only in case and have one
        vector, since a table does not tell them apart, are one.
    """
    rows = {word: row for row, word in enumerate(words)}
    numbers = vectors.vectors.numpy()
    column_of: dict[tuple[str, bytes], int] = {}
    candidates: list[int] = []
    # Where each word is among the candidates, or -1
    columns = torch.full((len(words),), -1)
    for word in dict.fromkeys(vocabulary):
        row = rows[word]
        if vectors.known[row]:
            columns[row] = column_of.setdefault((word.lower(), numbers[row].tobytes()), len(candidates))
            if columns[row] == len(candidates):
                candidates.append(row)
    # (questions, 4)
    ids = columns[torch.tensor([[rows[word] for word in question.words] for question in questions])]
    covered = (ids >= 0).all(dim=1)
    solved = solve(vectors.vectors[candidates], ids[covered])
    results = []
    for method in METHODS:
        # (questions,)
        correct = torch.zeros(len(questions), dtype=torch.bool).masked_scatter(covered, solved[method])
        for section, asked in _groups(questions).items():
            right, known = (int(flags[asked].sum()) for flags in (correct, covered))
            results.append(Accuracy(section, method, right, known, len(asked)))
    return results


def solve(vectors: torch.Tensor, questions: torch.Tensor) -> dict[str, torch.Tensor]:
    """
    Which questions each method answers rightly; a question's own three words are no answers. Of equally good
    answers the first row is taken.

    *Shape:* `vectors` `(words, dim)`; `questions` `(questions, 4)`, rows of words; `(questions,)` a method.
    """
    unit = F.normalize(vectors, dim=1)
    right: dict[str, list[torch.Tensor]] = {method: [] for method in METHODS}
    for block in questions.split(max(1, _NUMBERS // max(1, len(unit)))) if len(questions) else ():
        # (block, words) each
        a, b, c = (unit[block[:, column]] @ unit.T for column in range(3))
        for method, scores in (
            ("3CosAdd", b - a + c),
            ("3CosMul", (1 + b) * (1 + c) / (1 + a + 2 * _EPSILON)),
        ):
            scores.scatter_(1, block[:, :3], -torch.inf)
            right[method].append(scores.argmax(dim=1) == block[:, 3])
    return {
        method: torch.cat([*blocks, torch.zeros(0, dtype=torch.bool)]) for method, blocks in right.items()
    }


def _groups(questions: Sequence[Question]) -> dict[str, list[int]]:
    """The numbers of each section's questions, and of those of several sections."""
    sections: dict[str, list[int]] = {}
    kinds: dict[str, list[int]] = {}
    for number, question in enumerate(questions):
        sections.setdefault(question.section, []).append(number)
        kind = "syntactic" if question.section.startswith("gram") else "semantic"
        kinds.setdefault(kind, []).append(number)
    both = kinds if len(kinds) > 1 else {}
    return sections | both | {"all": list(range(len(questions)))}
