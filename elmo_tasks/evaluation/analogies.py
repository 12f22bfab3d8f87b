"""Word analogies, a is to b as c is to d, by the two methods of Levy and Goldberg (2014)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.nn import functional as F

from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.vectors.word_vectors import WordVectors

METHODS = ("3CosAdd", "3CosMul")
COSINES_AT_ONCE = 1 << 22
"""Bounds the memory, whatever the number of questions and the size of the vocabulary."""
_EPSILON = 0.001
"""The epsilon of 3CosMul, as in the paper, section 6."""


class Question(NamedTuple):
    """Four words of a section of questions."""

    section: str
    words: tuple[str, str, str, str]


class Accuracy(NamedTuple):
    """The result of a method in a section."""

    section: str
    method: str
    correct: int
    covered: int
    """The number of questions whose four words are known and in the vocabulary."""
    total: int


def read_questions(path: str) -> list[Question]:
    """
    Reads the layout of Google's questions-words.txt: lines `: section`, and after each its questions, four
    words a line.

    # Raises
    `InputError`, with the file and the line: no question, a question before the first section, other than
    four words, and the errors of reading.
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
        raise InputError.at(path, found="no question", expected="lines of four words after `: section`")
    return questions


def accuracies(
    vectors: WordVectors, words: Sequence[str], questions: Sequence[Question], vocabulary: Sequence[str]
) -> list[Accuracy]:
    """
    Returns the results of each method: for each section, then for the `semantic` and the `syntactic` ones
    (those whose names begin with `gram`), and for `all`.

    # Parameters

    words : the words of the vectors' rows, among them all words of the questions and of the vocabulary.
    vocabulary : the words among which answers are searched. Words that differ only in case and have the same
        vector, since a table does not distinguish them, count as one.
    """
    rows = {word: row for row, word in enumerate(words)}
    numbers = vectors.vectors.numpy()
    candidate_of: dict[tuple[str, bytes], int] = {}
    candidate_rows: list[int] = []
    # The candidate that each word is, or -1
    candidates = torch.full((len(words),), -1)
    for word in dict.fromkeys(vocabulary):
        row = rows[word]
        if vectors.known[row]:
            key = (word.lower(), numbers[row].tobytes())
            candidates[row] = candidate_of.setdefault(key, len(candidate_rows))
            if candidates[row] == len(candidate_rows):
                candidate_rows.append(row)
    # (questions, 4)
    ids = candidates[torch.tensor([[rows[word] for word in question.words] for question in questions])]
    covered = (ids >= 0).all(dim=1)
    solved = solve(vectors.vectors[candidate_rows], ids[covered])
    results = []
    for method in METHODS:
        # (questions,)
        correct = torch.zeros(len(questions), dtype=torch.bool).masked_scatter(covered, solved[method])
        for section, members in _groups(questions).items():
            solved_here, covered_here = (int(flags[members].sum()) for flags in (correct, covered))
            results.append(Accuracy(section, method, solved_here, covered_here, len(members)))
    return results


def solve(vectors: torch.Tensor, questions: torch.Tensor) -> dict[str, torch.Tensor]:
    """
    Returns which questions each method answers correctly. A question's own three words are no answers; of
    equally good answers the first row is taken.

    *Shape:* `vectors` `(words, dim)`; `questions` `(questions, 4)`, rows of words; `(questions,)` per method.
    """
    unit = F.normalize(vectors, dim=1)
    correct = {method: torch.zeros(len(questions), dtype=torch.bool) for method in METHODS}
    size = max(1, COSINES_AT_ONCE // max(1, len(unit)))
    for start in range(0, len(questions), size):
        block = questions[start : start + size]
        # (block, words) each
        a, b, c = (unit[block[:, column]] @ unit.T for column in range(3))
        scores = {"3CosAdd": b - a + c, "3CosMul": (1 + b) * (1 + c) / (1 + a + 2 * _EPSILON)}
        for method in METHODS:
            answers = scores[method].scatter(1, block[:, :3], -torch.inf).argmax(dim=1)
            correct[method][start : start + size] = answers == block[:, 3]
    return correct


def _groups(questions: Sequence[Question]) -> dict[str, list[int]]:
    """Returns the numbers of the questions of each section, and of groups of sections."""
    sections: dict[str, list[int]] = {}
    kinds: dict[str, list[int]] = {}
    for number, question in enumerate(questions):
        sections.setdefault(question.section, []).append(number)
        kind = "syntactic" if question.section.startswith("gram") else "semantic"
        kinds.setdefault(kind, []).append(number)
    both = kinds if len(kinds) > 1 else {}
    return sections | both | {"all": list(range(len(questions)))}
