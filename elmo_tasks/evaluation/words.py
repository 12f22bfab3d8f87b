"""
Words without context: similarity, the rank correlation of the cosines of word pairs with scores by people;
and analogies, a is to b as c is to d, by the two methods of Levy and Goldberg (2014).
"""

import csv
import logging
import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional as F

from elmo_tasks.data.input_files import InputError, file_beside, input_files, read_lines
from elmo_tasks.vectors.encoder import WordVectors

logger = logging.getLogger(__name__)

_DELIMITERS = ("\t", ";", ",")
_WORD_NAME = re.compile("(first|second)?(word|term|lemma|noun|verb)(1|2|a|b|one|two)?|w[12]")
_SCORE_NAME = re.compile("score|sim|rating|mean|average|relatedness|human|gold")
_NO_WORDS = {"", "id", "index", "idx", "no", "pos", "pos1", "pos2", "type"}
_LEMMA = re.compile(".+-[nvj]")
"""A word in MEN's lemma form, with its part of speech."""
_PARTS_OF_SPEECH = frozenset(["n", "v", "a", "r", "s", "nn", "vb", "jj", "rb", "noun", "verb", "adj", "adv"])


class Pair(NamedTuple):
    """Two words and their score."""

    first: str
    second: str
    score: float


class Correlation(NamedTuple):
    """A rank correlation over the pairs whose words are both known."""

    value: float
    """Not a number if it is undefined: fewer than two pairs, or all scores or cosines are equal."""
    covered: int


def spearman(vectors: WordVectors, words: Sequence[str], pairs: Sequence[Pair]) -> Correlation:
    """
    Returns Spearman's rank correlation of cosines and scores, with ties as SciPy treats them. `words` are the
    words of the vectors' rows, among them all words of the pairs.
    """
    rows = {word: row for row, word in enumerate(words)}
    # (pairs, 2)
    ids = torch.tensor([[rows[pair.first], rows[pair.second]] for pair in pairs])
    covered = vectors.known[ids].all(dim=1)
    # (covered, dim)
    first, second = vectors.vectors[ids[covered]].double().unbind(dim=1)
    cosines = round_cosines(F.cosine_similarity(first, second, dim=1))
    scores = torch.tensor([pair.score for pair in pairs], dtype=torch.double)[covered]
    if len(scores) < 2:
        return Correlation(float("nan"), len(scores))
    from scipy.stats import ConstantInputWarning, spearmanr  # takes half a second

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)
        value = float(spearmanr(cosines.numpy(), scores.numpy()).statistic)
    if math.isnan(value):
        logger.warning("%s: all cosines or all scores are equal, there is no correlation", vectors.name)
    return Correlation(value, len(scores))


def round_cosines(cosines: torch.Tensor) -> torch.Tensor:
    """Rounds cosines to six decimals, so that rounding errors do not tell equal vectors apart."""
    return cosines.round(decimals=6)


def read_pairs(path: str) -> list[Pair]:
    """
    Reads the layouts of WordSim-353 (csv, tab, txt), SimLex-999, MEN (natural and lemma form), RG-65, SCWS
    and similar sets: two words, and a score in a column of numbers after them.

    Columns are separated by tabs, semicolons, commas or, in a file without these, blanks. A first line
    without a number in the column of the scores is a header, whose names say which columns are the words and
    the score. Without such names, columns of numbers before the words, of parts of speech, and of single
    letters, as the relations in WordSim-353, are left out. So are the parts of speech of MEN's lemma form,
    `sun-n`, if all words have one. Empty lines and lines that begin with `#` are left out. For all else there
    is an `InputError`, with the file and the line.
    """
    return [pair for file in input_files(path) for pair in _read_pairs(file)]


def _read_pairs(file: Path) -> list[Pair]:
    lines = [(number, line) for number, line in read_lines(file) if line.strip() and not line.startswith("#")]
    delimiter = next((mark for mark in _DELIMITERS if lines and mark in lines[0][1]), None)
    rows = [(number, _cells(file, number, line, delimiter)) for number, line in lines]
    if not rows:
        raise InputError.at(file, found="no pair of words", expected="lines of two words and a score")
    # The second line decides: a number in the first one may be the name of a column.
    number, cells = rows[min(1, len(rows) - 1)]
    # A header lacks a number that a line of data has.
    lacks = (_is_number(cells, at) and not _is_number(rows[0][1], at) for at in range(2, len(cells)))
    header = rows.pop(0)[1] if any(lacks) else None
    columns = _columns(
        header if header and len(header) == len(cells) else [], [row for _, row in rows], cells
    )
    if columns is None:
        raise InputError.at(file, number, found=repr(" ".join(cells)), expected="two words and a number")
    first, second, score = columns
    pairs = []
    for number, cells in rows:
        if header and delimiter and not len(_without_empty(cells)) <= len(header) <= len(cells):
            raise InputError.at(file, number, found=f"{len(cells)} columns", expected=f"{len(header)}")
        if not _is_number(cells, score) or _is_number(cells, first) or _is_number(cells, second):
            expected = f"two words, and a number in column {score + 1}"
            raise InputError.at(file, number, found=repr(" ".join(cells)), expected=expected)
        pairs.append(Pair(cells[first], cells[second], float(cells[score])))
    if all(_LEMMA.fullmatch(word) for pair in pairs for word in pair[:2]):
        return [Pair(first[:-2], second[:-2], score) for first, second, score in pairs]
    return pairs


def _columns(header: list[str], rows: list[list[str]], data: list[str]) -> tuple[int, int, int] | None:
    """Returns the columns of both words and of the score, if there are any. `data` is one of the rows."""
    names = [re.sub(r"[\W_]", "", cell.lower()) for cell in header] or ["?"] * len(data)
    words = [place for place, name in enumerate(names) if _WORD_NAME.fullmatch(name)]
    if len(words) != 2:
        # Identifiers and parts of speech may stand beside the words.
        words = [p for p, name in enumerate(names) if not _is_number(data, p) and name not in _NO_WORDS]
        others = []
        for place in words:
            cells = [row[place].lower() if place < len(row) else "" for row in rows]
            if not all(cell in _PARTS_OF_SPEECH or len(cell) == 1 for cell in cells):
                others.append(place)
        words = others if len(others) >= 2 else words
    if len(words) < 2:
        return None
    scores = [place for place in range(words[1] + 1, len(data)) if _is_number(data, place)]
    named = [place for place in scores if _SCORE_NAME.search(names[place])]
    return (words[0], words[1], (named or scores)[0]) if scores else None


def _without_empty(cells: list[str]) -> list[str]:
    """Returns the cells without empty ones at the end, as trailing delimiters leave them."""
    return cells[: max((place + 1 for place, cell in enumerate(cells) if cell), default=0)]


def _cells(file: Path, number: int, line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return line.split()
    if delimiter == "\t":  # a mark of quotation may be of the text, as in the contexts of SCWS
        return [cell.strip().strip('"') for cell in line.split(delimiter)]
    try:
        (cells,) = csv.reader([line], delimiter=delimiter)
    except csv.Error as error:
        raise InputError.at(file, number, found=f"no csv ({error})", expected="csv") from error
    return [cell.strip() for cell in cells]


def _is_number(cells: list[str], place: int) -> bool:
    try:
        return math.isfinite(float(cells[place]))
    except (ValueError, IndexError):
        return False


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
        if len(words) != 2 or not words[1].strip("/") or _is_number(words, 1) or len(lines) < 2:
            found = repr(" ".join(words))
            raise InputError.at(file, line, found=found, expected="pairs of words, at least two")
    if len(lines) > _MOST_PAIRS:
        found, expected = f"{len(lines):,} pairs", f"{_MOST_PAIRS} at most, since every two make a question"
        raise InputError.at(file, found=found, expected=expected)
    pairs = [(word, [variant for variant in others.split("/") if variant]) for _, (word, others) in lines]
    section = file.name.removesuffix(".gz").removesuffix(".txt")
    return [
        Question(section, (a, b[0], c, *d))
        for number, (a, b) in enumerate(pairs)
        for other, (c, d) in enumerate(pairs)
        if number != other
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
    places = {each: place for place, each in enumerate(candidates)}
    asked = {word for question in questions for word in question.words if has_vector[rows[word]]}
    # The candidate that each word is
    ids_of_words = {word: places.get(key(word), -1) for word in asked}
    longest = max(len(question.words) for question in questions)
    ids = torch.full((len(questions), longest), -1)
    for number, question in enumerate(questions):
        ids[number, : len(question.words)] = torch.tensor(
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
    for number, question in enumerate(questions):
        sections.setdefault(question.section, []).append(number)
        kind = "syntactic" if _SYNTACTIC.match(question.section) else "semantic"
        kinds.setdefault(kind, []).append(number)
    both = kinds if len(kinds) > 1 else {}
    return sections | both | {"all": list(range(len(questions)))}
