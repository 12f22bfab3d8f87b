"""Analogies, a is to b as c is to d, by the two methods of Levy and Goldberg (2014)."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional as F

from elmo_tasks.data.input_files import InputError, file_beside, input_files, read_lines
from elmo_tasks.evaluation.similarity import is_number
from elmo_tasks.vectors.encoder import WordVectors

METHODS = ("3CosAdd", "3CosMul")
COSINES_AT_ONCE = 1 << 22
"""Bounds the memory, whatever the number of questions and the size of the vocabulary."""
_EPSILON = 0.001
"""The epsilon of 3CosMul, as in the paper, section 6."""
_MOST_PAIRS = 500
"""Pairs of a file at most: those of BATS have 50."""
_QUESTIONS, _ANSWERS = ".questions", ".answers"
_SYNTACTIC = re.compile(r"gram|[ID]\d\d |(JJ|NN|VB)[A-Z]*_")
"""The beginnings of syntactic sections: Google's, inflection and derivation in BATS, and MSR's."""


class Question(NamedTuple):
    """Four words of a section of questions."""

    section: str
    words: tuple[str, ...]
    """Four words, and after them further right answers in place of the fourth."""


class Accuracy(NamedTuple):
    """The result of a method in a section."""

    section: str
    method: str
    correct: int
    covered: int
    """The number of questions whose words are known and in the vocabulary, with at least one right answer."""
    total: int


def read_questions(path: str) -> list[Question]:
    """
    Reads analogies, in one of these layouts; all else is an `InputError`, with file and line.

    - Google's questions-words.txt: lines `: section`, and after each its questions, four words a line;
    - four words a line without sections, which are named after their file;
    - MSR's: three words a line in `NAME.questions`, and beside it `NAME.answers`, with the section and the
      fourth word;
    - BATS: a section a file, a pair of words a line, the second one with its variants, `dog dogs/hounds`.
      Every two pairs make a question, whose answer may be any variant.
    """
    files = input_files(path)
    answers = {_answers_of(file) for file in files if file.suffix == _QUESTIONS}
    questions = [question for file in files if file not in answers for question in _read_questions(file)]
    if not questions:
        raise InputError.at(path, found="no question", expected="lines of four words")
    return questions


def _read_questions(file: Path) -> list[Question]:
    lines = [(line, words) for line, text in read_lines(file) if (words := text.split())]
    if file.suffix == _QUESTIONS:
        return _with_answers(file, lines)
    if lines and len(lines[0][1]) == 2 and not lines[0][1][0].startswith(":"):
        return _of_pairs(file, lines)
    section, questions = file.name.removesuffix(".gz").removesuffix(".txt"), []
    for line, words in lines:
        if words[0].startswith(":"):
            section = " ".join(words).removeprefix(":").strip()
        elif len(words) != 4:
            raise InputError.at(file, line, found=repr(" ".join(words)), expected="four words")
        else:
            questions.append(Question(section, tuple(words)))
    return questions


def _answers_of(file: Path) -> Path:
    return file_beside(file, file.with_suffix(_ANSWERS).name)


def _with_answers(file: Path, lines: list[tuple[int, list[str]]]) -> list[Question]:
    answer_file = _answers_of(file)
    answers = [(line, words) for line, text in read_lines(answer_file) if (words := text.split())]
    if len(answers) != len(lines):
        raise InputError.at(answer_file, found=f"{len(answers)} answers", expected=f"{len(lines)}")
    questions = []
    for (line, words), (answer_line, answer) in zip(lines, answers, strict=True):
        if len(words) != 3:
            raise InputError.at(file, line, found=repr(" ".join(words)), expected="three words")
        if len(answer) != 2:
            found = repr(" ".join(answer))
            raise InputError.at(answer_file, answer_line, found=found, expected="a section and a word")
        questions.append(Question(answer[0], (*words, answer[1])))
    return questions


def _of_pairs(file: Path, lines: list[tuple[int, list[str]]]) -> list[Question]:
    for line, words in lines:
        if len(words) != 2 or not words[1].strip("/") or is_number(words, 1) or len(lines) < 2:
            found = repr(" ".join(words))
            raise InputError.at(file, line, found=found, expected="pairs of words, at least two")
    if len(lines) > _MOST_PAIRS:
        found, expected = f"{len(lines):,} pairs", f"{_MOST_PAIRS} at most, since every two make a question"
        raise InputError.at(file, found=found, expected=expected)
    pairs = [(word, [variant for variant in others.split("/") if variant]) for _, (word, others) in lines]
    section = file.name.removesuffix(".gz").removesuffix(".txt")
    return [
        Question(section, (a, b[0], c, *d))
        for i, (a, b) in enumerate(pairs)
        for j, (c, d) in enumerate(pairs)
        if i != j
    ]


def accuracies(
    vectors: WordVectors, words: Sequence[str], questions: Sequence[Question], vocabulary: Sequence[str]
) -> list[Accuracy]:
    """
    Returns the results of each method: for each section, then for the `semantic` and the `syntactic` ones
    (in the names of Google, BATS and MSR), and for `all`.

    # Parameters

    words : the words of the vectors' rows, among them all words of the questions and of the vocabulary.
    vocabulary : the words among which answers are searched. Words that differ only in case and have the same
        vector, since a table does not distinguish them, count as one.
    """
    rows = {word: row for row, word in enumerate(words)}
    has_vector, table = vectors.known.tolist(), vectors.vectors.numpy()

    def key(word: str) -> tuple[str, bytes]:
        return word.lower(), table[rows[word]].tobytes()

    # The row of each candidate, by its key
    candidates: dict[tuple[str, bytes], int] = {}
    for word in vocabulary:
        if has_vector[rows[word]]:
            candidates.setdefault(key(word), rows[word])
    index_of_key = {each: index for index, each in enumerate(candidates)}
    question_words = {word for question in questions for word in question.words if has_vector[rows[word]]}
    # The candidate that each word is
    ids_of_words = {word: index_of_key.get(key(word), -1) for word in question_words}
    longest = max(len(question.words) for question in questions)
    ids = torch.full((len(questions), longest), -1)
    for row, question in enumerate(questions):
        ids[row, : len(question.words)] = torch.tensor(
            [ids_of_words.get(word, -1) for word in question.words]
        )
    covered = (ids[:, :3] >= 0).all(dim=1) & (ids[:, 3:] >= 0).any(dim=1)
    solved = solve(vectors.vectors[list(candidates.values())], ids[covered])
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

    *Shape:* `vectors` `(words, dim)`; `questions` `(questions, 4 or more)`, rows of words, from the fourth
    on of right answers, -1 for none; `(questions,)` per method.
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
            answers = scores[method].scatter(1, block[:, :3], -torch.inf).argmax(dim=1, keepdim=True)
            correct[method][start : start + size] = (answers == block[:, 3:]).any(dim=1)
    return correct


def _groups(questions: Sequence[Question]) -> dict[str, list[int]]:
    sections: dict[str, list[int]] = {}
    kinds: dict[str, list[int]] = {}
    for index, question in enumerate(questions):
        sections.setdefault(question.section, []).append(index)
        kind = "syntactic" if _SYNTACTIC.match(question.section) else "semantic"
        kinds.setdefault(kind, []).append(index)
    both = kinds if len(kinds) > 1 else {}
    return sections | both | {"all": list(range(len(questions)))}
