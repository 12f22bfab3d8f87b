"""
Similarity of words, as the rank correlation of the cosines of word pairs with people's scores; and analogies,
a is to b as c is to d, by the two methods of Levy and Goldberg (2014).
"""

import csv
import logging
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from elmo_tasks.data.formats.delimited import delimited_lines
from elmo_tasks.data.input_files import InputError, check_found, file_beside, input_files, read_lines
from elmo_tasks.vectors.encoder import VectorEncoder, WordVectors

logger = logging.getLogger(__name__)

_WORD_NAME = re.compile("(first|second)?(word|term|lemma|noun|verb)(1|2|a|b|one|two)?|w[12]")
_SCORE_NAME = re.compile("score|sim|rating|mean|average|relatedness|human|gold")
_NOT_WORD_NAMES = {"", "id", "index", "idx", "no", "pos", "pos1", "pos2", "type"}
_ANALOGY_NAMES = re.compile("a b c d|word_?1 word_?2 word_?3 (word_?4|target|answer)")
"""The header of a table of analogies."""
_NUMBERS = {"id", "index", "number", "unnamed: 0"}
_LEMMA = re.compile(".+-[nvj]")
"""A word in MEN's lemma form, with its part of speech."""
_POS_TAGS = frozenset(["n", "v", "a", "r", "s", "nn", "vb", "jj", "rb", "noun", "verb", "adj", "adv"])
ANALOGY_METHODS = ("3CosAdd", "3CosMul")
COSINES_AT_ONCE = 1 << 22
"""Bounds the memory, whatever the number of analogies and the size of the vocabulary."""
_EPSILON = 0.001
"""The epsilon of 3CosMul, as in the paper, section 6."""
_MAX_BATS_PAIRS = 500
"""Every two pairs of a file make a question; the files of BATS have 50 pairs."""
_SYNTACTIC = re.compile(r"gram|[ID]\d\d |(JJ|NN|VB)[A-Z]*_")
"""The beginnings of syntactic sections: Google's, inflection and derivation in BATS, and MSR's."""


class WordPair(NamedTuple):
    first: str
    second: str
    score: float


class Correlation(NamedTuple):
    """A rank correlation over the pairs whose words are both known."""

    value: float
    """Not a number if it is undefined: fewer than two pairs, or all scores or cosines are equal."""
    covered: int


def spearman(vectors: WordVectors, words: Sequence[str], pairs: Sequence[WordPair]) -> Correlation:
    """Correlates cosines with scores, ties as in SciPy. `words` are those of the vectors' rows."""
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
        logger.warning(
            "%s: all cosines or all scores are equal, so the correlation is undefined", vectors.name
        )
    return Correlation(value, len(scores))


def round_cosines(cosines: torch.Tensor) -> torch.Tensor:
    """Rounds cosines to six decimals, so that rounding errors do not tell equal vectors apart."""
    return cosines.round(decimals=6)


def read_pairs(path: str) -> list[WordPair]:
    """
    Reads the layouts of WordSim-353 (csv, tab, txt), SimLex-999, MEN (natural and lemma form), RG-65, SCWS
    and similar sets: two words, and a score in a column of numbers after them.

    Columns are separated by tabs, semicolons, commas or, in a file without these, blanks. A first line
    without a number in the column of the scores is a header, whose names say which columns are the words and
    the score; with a name, the score may come before the words. Without such names, columns of numbers before
    the words, of parts of speech, and of single letters, as the relations in WordSim-353, are left out. So
    are the parts of speech of MEN's lemma form, `sun-n`, if all words have one. Empty lines, rows whose words
    and score are empty, and lines that begin with `#` are left out. For all else there is an `InputError`,
    with the file and the line.
    """
    return [pair for file in input_files(path) for pair in _read_pairs(file)]


def _read_pairs(file: Path) -> list[WordPair]:
    lines = [
        (number, line) for number, line in delimited_lines(file) if line.strip() and not line.startswith("#")
    ]
    check_found(lines, "pairs of words", file)
    delimiter = next((mark for mark in "\t;," if mark in lines[0][1]), None)
    rows = [(number, _cells(line, delimiter)) for number, line in lines]
    # The second line decides: a number in the first one may be the name of a column.
    sample = rows[min(1, len(rows) - 1)][1]
    # A header lacks a number that a line of data has; the first two columns may be words such as 1984.
    numbers, first = _numbers(sample), _numbers(rows[0][1])
    is_header = any(column > 1 for column in numbers - first) or bool(numbers and not first)
    header = rows.pop(0)[1] if is_header else []
    names = header if len(header) == len(sample) else []
    columns = _columns(names, [row for _, row in rows], sample)
    pairs: list[WordPair] = []
    for number, cells in rows:
        if columns and pairs and all(cells[column : column + 1] == [""] for column in columns):
            continue
        # Trailing delimiters leave empty cells at the end.
        filled = max((column for column, cell in enumerate(cells, start=1) if cell), default=0)
        whole = not header or not delimiter or filled <= len(header) <= len(cells)
        are_numbers = [is_number(cells, column) for column in columns or ()]
        if columns is None or not whole or are_numbers != [False, False, True]:
            column = f" in column {columns[2] + 1}" if columns else ""
            raise _wrong_line(file, number, cells, f"two words and a score{column}")
        word, other, score = (cells[column] for column in columns)
        pairs.append(WordPair(word, other, float(score)))
    if all(_LEMMA.fullmatch(word) for pair in pairs for word in pair[:2]):
        return [WordPair(first[:-2], second[:-2], score) for first, second, score in pairs]
    return pairs


def _columns(header: list[str], rows: list[list[str]], data: list[str]) -> tuple[int, int, int] | None:
    names = [re.sub(r"[\W_]", "", cell.lower()) for cell in header] or ["?"] * len(data)
    words = [column for column, name in enumerate(names) if _WORD_NAME.fullmatch(name)]
    if len(words) != 2:
        # There may be columns of identifiers and parts of speech.
        words = [
            column
            for column, name in enumerate(names)
            if not is_number(data, column) and name not in _NOT_WORD_NAMES
        ]
        texts = []
        for column in words:
            cells = [row[column].lower() if column < len(row) else "" for row in rows]
            if not all(cell in _POS_TAGS or len(cell) == 1 for cell in cells):
                texts.append(column)
        words = texts if len(texts) >= 2 else words
    if len(words) < 2:
        return None
    numbers = sorted(_numbers(data))
    after = [column for column in numbers if column > words[1]]
    named = [column for column in after or numbers if _SCORE_NAME.search(names[column])]
    return (words[0], words[1], (named or after)[0]) if named or after else None


def _cells(line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return line.split()
    if delimiter == "\t":  # quotation marks may belong to the text, as in the contexts of SCWS
        return [cell.strip().strip('"') for cell in line.split(delimiter)]
    (cells,) = csv.reader([line.replace("\r", " ")], delimiter=delimiter)
    return [cell.strip() for cell in cells]


def _numbers(cells: list[str]) -> set[int]:
    return {column for column in range(len(cells)) if is_number(cells, column)}


def is_number(cells: list[str], column: int) -> bool:
    try:
        return math.isfinite(float(cells[column]))
    except (ValueError, IndexError):
        return False


class Analogy(NamedTuple):
    """Four words of a section of questions."""

    section: str
    words: tuple[str, ...]
    """Four words, and after them further right answers in place of the fourth."""


class Accuracy(NamedTuple):
    section: str
    method: str
    correct: int
    covered: int
    """The number of questions whose words are known and in the vocabulary, with at least one right answer."""
    total: int


def read_analogies(path: str) -> list[Analogy]:
    """
    Reads analogies, in one of these layouts; all else is an `InputError`, with file and line.

    - Google's questions-words.txt: lines `: section`, and after each its questions, four words a line;
    - four words a line without sections, which are named after their file;
    - MSR's: three words a line in `NAME.questions`, and `NAME.answers` in the same folder, with the section
      and the fourth word;
    - BATS: a section a file, a pair of words a line, the second one with its variants, `dog dogs/hounds`.
      Every two pairs make a question, whose answer may be any variant.
    """
    files = input_files(path)
    answers = {_answer_file(file) for file in files if file.suffix == ".questions"}
    analogies = [analogy for file in files if file not in answers for analogy in _read_analogies(file)]
    check_found(analogies, "analogies, which are lines of four words", path)
    return analogies


def _read_analogies(file: Path) -> Iterator[Analogy]:
    lines = _words_of_lines(file)
    section = file.name.removesuffix(".gz").removesuffix(".txt")
    if file.suffix == ".questions":
        yield from _with_answers(file, lines)
    elif lines and len(lines[0][1]) == 2 and not lines[0][1][0].startswith(":"):
        yield from _of_pairs(file, section, lines)
    else:
        for line, words in _with_sections(lines):
            if words[0].startswith(":"):
                section = " ".join(words).removeprefix(":").strip()
            else:
                yield Analogy(section, _words(file, line, words, count=4))


def _with_sections(lines: list[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    """Yields lines of four words; of a table with a header its last four columns, and the section before."""
    header = lines[0][1] if lines else []
    if not _ANALOGY_NAMES.fullmatch(" ".join(header[-4:]).lower()):
        yield from lines
        return
    has_section = len(header) > 4 and header[-5].lower() not in _NUMBERS
    section = ""
    for line, words in lines[1:]:
        if has_section and len(words) > 4 and words[-5] != section:
            section = words[-5]
            yield line, [":", section]
        yield line, words[-4:]


def _words_of_lines(file: Path) -> list[tuple[int, list[str]]]:
    return [(line, words) for line, text in read_lines(file) if (words := re.findall(r"[^\s,]+", text))]


def _words(file: Path, line: int, words: list[str], *, count: int) -> tuple[str, ...]:
    if len(words) != count:
        raise _wrong_line(file, line, words, f"a line of {count} words")
    return tuple(words)


def _wrong_line(file: Path, line: int, words: list[str], expected: str) -> InputError:
    return InputError(f"{' '.join(words)!r} is not {expected}", where=file, line=line)


def _answer_file(file: Path) -> Path:
    return file_beside(file, file.with_suffix(".answers").name)


def _with_answers(file: Path, lines: list[tuple[int, list[str]]]) -> Iterator[Analogy]:
    answer_file = _answer_file(file)
    answers = _words_of_lines(answer_file)
    if len(answers) != len(lines):
        raise InputError(f"{file.name} needs {len(lines)} answers, not {len(answers)}", where=answer_file)
    for (line, words), (answer_line, answer) in zip(lines, answers, strict=True):
        section, word = _words(answer_file, answer_line, answer, count=2)
        yield Analogy(section, (*_words(file, line, words, count=3), word))


def _of_pairs(file: Path, section: str, lines: list[tuple[int, list[str]]]) -> Iterator[Analogy]:
    pairs = []
    for index, (line, words) in enumerate(lines):
        variants = [variant for variant in words[-1].split("/") if variant]
        wrong_count = len(lines) < 2 or index >= _MAX_BATS_PAIRS
        if wrong_count or len(words) != 2 or not variants or is_number(words, 1):
            raise _wrong_line(file, line, words, f"one of 2 to {_MAX_BATS_PAIRS} pairs of words")
        pairs.append((words[0], variants))
    for i, (a, b) in enumerate(pairs):
        for j, (c, d) in enumerate(pairs):
            if i != j:
                yield Analogy(section, (a, b[0], c, *d))


def accuracies(
    vectors: WordVectors, words: Sequence[str], questions: Sequence[Analogy], vocabulary: Sequence[str]
) -> list[Accuracy]:
    """
    Scores each method: for each section, then for the `semantic` and the `syntactic` ones (as the names of
    Google's, BATS' and MSR's sections tell them), and for `all`.

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
    index_of_key = {key_of_word: index for index, key_of_word in enumerate(candidates)}
    question_words = {word for question in questions for word in question.words if has_vector[rows[word]]}
    # The candidate that each word is
    ids_of_words = {word: index_of_key.get(key(word), -1) for word in question_words}
    # (questions, 4 or more), -1 for an unknown word
    ids = pad_sequence(
        [torch.tensor([ids_of_words.get(word, -1) for word in question.words]) for question in questions],
        batch_first=True,
        padding_value=-1,
    )
    covered = (ids[:, :3] >= 0).all(dim=1) & (ids[:, 3:] >= 0).any(dim=1)
    solved = solve(vectors.vectors[list(candidates.values())], ids[covered])
    results = []
    for method in ANALOGY_METHODS:
        # (questions,)
        correct = torch.zeros(len(questions), dtype=torch.bool).masked_scatter(covered, solved[method])
        for section, members in _groups(questions).items():
            solved_here, covered_here = (int(flags[members].sum()) for flags in (correct, covered))
            results.append(Accuracy(section, method, solved_here, covered_here, len(members)))
    return results


def solve(vectors: torch.Tensor, questions: torch.Tensor) -> dict[str, torch.Tensor]:
    """
    Tells which questions each method answers correctly. A question's own three words are no answers; of
    equally good answers the first row is taken.

    *Shape:* `vectors` `(words, dim)`; `questions` `(questions, 4 or more)`, rows of words, from the fourth
    on of right answers, -1 for none; `(questions,)` per method.
    """
    unit = F.normalize(vectors, dim=1)
    correct = {method: torch.zeros(len(questions), dtype=torch.bool) for method in ANALOGY_METHODS}
    size = max(1, COSINES_AT_ONCE // max(1, len(unit)))
    for start in range(0, len(questions), size):
        block = questions[start : start + size]
        # (block, words) each
        a, b, c = (unit[block[:, column]] @ unit.T for column in range(3))
        scores = {"3CosAdd": b - a + c, "3CosMul": (1 + b) * (1 + c) / (1 + a + 2 * _EPSILON)}
        for method in ANALOGY_METHODS:
            answers = scores[method].scatter(1, block[:, :3], -torch.inf).argmax(dim=1, keepdim=True)
            correct[method][start : start + size] = (answers == block[:, 3:]).any(dim=1)
    return correct


def _groups(questions: Sequence[Analogy]) -> dict[str, list[int]]:
    sections: dict[str, list[int]] = {}
    kinds: dict[str, list[int]] = {}
    for index, question in enumerate(questions):
        sections.setdefault(question.section, []).append(index)
        kind = "syntactic" if _SYNTACTIC.match(question.section) else "semantic"
        kinds.setdefault(kind, []).append(index)
    both = kinds if len(kinds) > 1 else {}
    return sections | both | {"all": list(range(len(questions)))}


BLOCK_TOKENS = 4096
"""The tokens of a block of text; the last sentence may exceed it."""
CONTEXT_WORDS = 10


class Occurrence(NamedTuple):
    """A token of a sentence."""

    words: list[str]
    position: int

    def marked(self) -> str:
        """Shows the token between `**`, with the words around it."""
        start, end = max(0, self.position - CONTEXT_WORDS), self.position + 1 + CONTEXT_WORDS
        before, after = self.words[start : self.position], self.words[self.position + 1 : end]
        marked = [*before, f"**{self.words[self.position]}**", *after]
        return " ".join([*["…"] * (start > 0), *marked, *["…"] * (end < len(self.words))])


class Neighbor(NamedTuple):
    """A token of the text: its line, its position in the line (both from 0), and its cosine to the query."""

    line: int
    position: int
    cosine: float


class TextBlock(NamedTuple):
    """Consecutive sentences of a text, end to end."""

    vectors: torch.Tensor
    """`(rows, tokens, dim)`"""
    indices: torch.Tensor
    """`(tokens, 2)`: the line and the position of each token."""
    sentences: list[tuple[int, list[str]]]
    """The index of each sentence's first token, and its words."""


def nearest_tokens(
    encoder: VectorEncoder, queries: Sequence[Occurrence], blocks: Iterable[TextBlock], *, count: int
) -> list[list[list[Neighbor]]]:
    """
    Finds the `count` nearest tokens of a text for each query and row, best first, of equal ones the first in
    the text. `blocks` are of `text_blocks` with the same encoder. The query's own token is left out.
    """
    encoded = encoder.encode_items(queries, lambda query: query.words)
    # (queries, rows, dim)
    wanted = F.normalize(torch.stack([vectors[:, query.position] for query, vectors in encoded]), dim=2)
    # (queries, rows, best so far)
    cosines = wanted.new_zeros(*wanted.shape[:2], 0)
    # (queries, rows, best so far, 2)
    indices = torch.zeros(*cosines.shape, 2, dtype=torch.long)
    for block in blocks:
        # (queries, rows, tokens)
        here = round_cosines(torch.einsum("qrd,rtd->qrt", wanted, F.normalize(block.vectors, dim=2)))
        for query_index, query in enumerate(queries):
            for start, words in block.sentences:
                if words == query.words:
                    here[query_index, :, start + query.position] = -torch.inf
        cosines, order = torch.cat([cosines, here], dim=2).sort(dim=2, descending=True, stable=True)
        cosines, order = cosines[:, :, :count], order[:, :, :count]
        # (queries, rows, best so far + tokens, 2)
        both = torch.cat([indices, block.indices.expand(*here.shape, 2)], dim=2)
        indices = both.gather(2, order.unsqueeze(3).expand(-1, -1, -1, 2))
    return [
        [
            [
                Neighbor(line, position, cosine)
                for (line, position), cosine in zip(row_indices, row_cosines, strict=True)
                if cosine > -torch.inf
            ]
            for row_indices, row_cosines in zip(*query, strict=True)
        ]
        for query in zip(indices.tolist(), cosines.tolist(), strict=True)
    ]


def text_blocks(encoder: VectorEncoder, lines: Iterable[str]) -> Iterator[TextBlock]:
    vectors: list[torch.Tensor] = []
    indices: list[tuple[int, int]] = []
    sentences: list[tuple[int, list[str]]] = []
    numbered = enumerate(map(str.split, lines))
    for (line, words), encoded in encoder.encode_items(numbered, lambda item: item[1]):
        sentences.append((len(indices), words))
        vectors.append(encoded)
        indices.extend((line, position) for position in range(len(words)))
        if len(indices) >= BLOCK_TOKENS:
            yield TextBlock(torch.cat(vectors, dim=1), torch.tensor(indices), sentences)
            vectors, indices, sentences = [], [], []
    if indices:
        yield TextBlock(torch.cat(vectors, dim=1), torch.tensor(indices), sentences)
