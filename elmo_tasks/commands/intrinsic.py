"""`allennlp elmo intrinsic`: word similarity and analogies, layer by layer."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import ContextArguments, VectorArguments
from elmo_tasks.commands.base import Input, Verb, option
from elmo_tasks.commands.results import ResultArguments
from elmo_tasks.common.plot import bars
from elmo_tasks.common.table import Cell, Table
from elmo_tasks.data.input_files import InputError, input_files, read_lines
from elmo_tasks.evaluation.analogies import Question, accuracies, read_questions
from elmo_tasks.evaluation.similarity import Pair, read_pairs, spearman
from elmo_tasks.vectors.word_vectors import WordVectors, alone

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIMILARITY = {"wordsim": "WordSim-353", "simlex": "SimLex-999", "men": "MEN", "rg": "RG-65"}
COLUMNS = ("test", "section", "measure", "vectors", "score", "covered", "total")


def _pairs_option(test: str) -> Any:
    return option(f"word pairs with scores, as in {SIMILARITY[test]}", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class Intrinsic(Verb):
    """The verb `intrinsic`; see `evaluation.similarity` and `evaluation.analogies`."""

    name = "intrinsic"
    help = "Word similarity and analogies."
    description = """Shows Spearman's correlation of cosines with people's scores of word pairs, and the share
        of analogies that are solved, by 3CosAdd and 3CosMul, for each layer of a biLM, their average, given
        mixes and static vectors. A word is encoded alone, or averaged over its occurrences in a text. A pair
        or question with an unknown word is not covered, and does not count."""

    wordsim: Input | None = _pairs_option("wordsim")
    simlex: Input | None = _pairs_option("simlex")
    men: Input | None = _pairs_option("men")
    rg: Input | None = _pairs_option("rg")
    analogies: Input | None = option("questions as in Google's set, MSR's or BATS", metavar="FILE")
    vocabulary: Input | None = option(
        "the words among which answers to analogies are looked for, one a line (default: the words of the "
        "questions)",
        metavar="FILE",
    )
    contexts: ContextArguments
    vectors: VectorArguments
    results: ResultArguments

    def run(self) -> None:
        with self.results.writer() as writer:
            pairs = {
                test: read_pairs(path) for test in SIMILARITY if (path := getattr(self, test)) is not None
            }
            questions = read_questions(self.analogies) if self.analogies is not None else []
            if not pairs and not questions:
                tests = ", ".join(f"--{option}" for option in (*SIMILARITY, "analogies"))
                raise ConfigurationError(f"found no test, expected one or more of {tests}")
            asked = [word for question in questions for word in question.words]
            vocabulary = _read_vocabulary(self.vocabulary) if self.vocabulary is not None else asked
            compared = [word for test in pairs.values() for pair in test for word in pair[:2]]
            words = list(dict.fromkeys([*compared, *asked, *(vocabulary if questions else [])]))
            encoder, static = self.vectors.encoders()
            by_vectors = [
                [
                    *_similarity_rows(vectors, words, pairs),
                    *(_analogy_rows(vectors, words, questions, vocabulary) if questions else ()),
                ]
                for vectors in (
                    *self.contexts.word_vectors(encoder, words, writer.folder),
                    *(row for table in static for row in alone(table, words)),
                )
            ]
            # Rows to compare stand together.
            table = Table(COLUMNS, [row for rows in zip(*by_vectors, strict=True) for row in rows])
            writer.write(table, _figure(table))


def _similarity_rows(
    vectors: WordVectors, words: list[str], tests: dict[str, list[Pair]]
) -> Iterator[tuple[Cell, ...]]:
    for test, pairs in tests.items():
        value, covered = spearman(vectors, words, pairs)
        yield test, None, "spearman", vectors.name, value, covered, len(pairs)


def _analogy_rows(
    vectors: WordVectors, words: list[str], questions: list[Question], vocabulary: list[str]
) -> Iterator[tuple[Cell, ...]]:
    for section, method, correct, covered, total in accuracies(vectors, words, questions, vocabulary):
        score = correct / covered if covered else math.nan
        yield "analogies", section, method, vectors.name, score, covered, total


def _figure(table: Table) -> "Figure":
    shown = Table(("test", "vectors", "score"))
    for test, section, measure, vectors, score, _, _ in table.where("section", None, "all").rows:
        shown.add(test if section is None else f"{test}\n{measure}", vectors, score)
    return bars(shown, groups="test", bars="vectors", heights="score")


def _read_vocabulary(path: str) -> list[str]:
    words = [line.strip() for file in input_files(path) for _, line in read_lines(file)]
    if not any(words):
        raise InputError.at(path, found="no word", expected="one word a line")
    return [word for word in words if word]
