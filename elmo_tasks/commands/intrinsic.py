"""The verbs about what vectors know: `intrinsic`, `probe`, `neighbors` and `similar`."""

import heapq
import math
from abc import abstractmethod
from collections.abc import Iterator
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import ContextArguments, VectorArguments, copy_corpus
from elmo_tasks.commands.base import Input, Positive, Verb, VerbGroup, option, positional
from elmo_tasks.commands.results import ResultArguments
from elmo_tasks.common.progress import progress
from elmo_tasks.common.table import Cell, Table
from elmo_tasks.data.formats.containers import container
from elmo_tasks.data.formats.profile import read_table
from elmo_tasks.data.formats.records import record_format
from elmo_tasks.data.formats.sample import TABLE_FILES, sample_of
from elmo_tasks.data.input_files import InputError, check_found, input_files, nonblank_lines
from elmo_tasks.embedding.corpus import Corpus
from elmo_tasks.evaluation.plots import bars
from elmo_tasks.evaluation.probes import (
    TAG_COLUMNS,
    choose_threshold,
    most_frequent_tag,
    read_first_senses,
    read_senses,
    read_tagged,
    read_use_pairs,
    sense_baseline,
    sense_probe,
    tagging_probe,
    use_cosines,
)
from elmo_tasks.evaluation.words import (
    Occurrence,
    accuracies,
    nearest_tokens,
    read_analogies,
    read_pairs,
    spearman,
    text_blocks,
)
from elmo_tasks.pipeline.stream import text_rows
from elmo_tasks.pipeline.trained import load
from elmo_tasks.vectors.encoder import VectorEncoder, out_of_context

SIMILARITY = {"wordsim": "WordSim-353", "simlex": "SimLex-999", "men": "MEN", "rg": "RG-65"}
_INTRINSIC_COLUMNS = ("test", "section", "measure", "vectors", "score", "covered", "total")


def _pairs_option(test: str) -> Any:
    return option(f"word pairs with scores, as in {SIMILARITY[test]}", metavar="FILE")


class Intrinsic(Verb):
    name = "intrinsic"
    help = "Word similarity and analogies."
    description = """Shows Spearman's correlation of cosines with people's scores of word pairs, and the share
        of analogies that 3CosAdd and 3CosMul solve: for each layer of a biLM, their average, given mixes and
        static vectors. A word is encoded alone, or averaged over its occurrences in a text. A pair or a
        question with an unknown word is not covered, and does not count."""

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
            questions = read_analogies(self.analogies) if self.analogies is not None else []
            if not pairs and not questions:
                tests = ", ".join(f"--{test}" for test in (*SIMILARITY, "analogies"))
                raise ConfigurationError(f"one or more of {tests} is required")
            question_words = [word for question in questions for word in question.words]
            vocabulary = question_words
            if self.vocabulary is not None:
                files = input_files(self.vocabulary)
                vocabulary = [line.strip() for file in files for _, line in nonblank_lines(file)]
                check_found(vocabulary, "words", self.vocabulary)
            compared = [word for test in pairs.values() for pair in test for word in pair[:2]]
            words = list(dict.fromkeys([*compared, *question_words, *(vocabulary if questions else [])]))
            encoder, static = self.vectors.encoders()
            by_vectors: list[list[tuple[Cell, ...]]] = []
            for vectors in (
                *self.contexts.word_vectors(encoder, words, writer.folder),
                *(row for table in static for row in out_of_context(table, words)),
            ):
                rows: list[tuple[Cell, ...]] = []
                for test, pairs_of_test in pairs.items():
                    value, covered = spearman(vectors, words, pairs_of_test)
                    rows.append((test, None, "spearman", vectors.name, value, covered, len(pairs_of_test)))
                results = accuracies(vectors, words, questions, vocabulary) if questions else []
                for section, method, correct, covered, total in results:
                    score = correct / covered if covered else math.nan
                    rows.append(("analogies", section, method, vectors.name, score, covered, total))
                by_vectors.append(rows)
            # Rows to compare are adjacent.
            table = Table(_INTRINSIC_COLUMNS, list(chain.from_iterable(zip(*by_vectors, strict=True))))
            shown = Table(("test", "vectors", "score"))
            for title, subset, measure, name, height, _, _ in table.where("section", None, "all").rows:
                shown.add(title if subset is None else f"{title}\n{measure}", name, height)
            writer.write(table, bars(shown, groups="test", bars="vectors", heights="score"))


_PROBE_COLUMNS = ("vectors", "accuracy", "correct", "total")
_STATIC_IN_SENTENCE = (
    "The static vector of a word in a sentence is the mean of the vectors of the other words."
)


class Probe(Verb):
    train: Input = positional("TRAIN", "file, folder, pattern or URL, gzip or not")
    dev: Input = positional("DEV", "the same")
    vectors: VectorArguments
    results: ResultArguments

    def run(self) -> None:
        with self.results.writer() as writer:
            encoder, static = self.vectors.encoders()
            table = self.probe([encoder, *static], writer.folder)
            shown = Table(("probe", "vectors", "accuracy"), [("", row[0], row[1]) for row in table.rows])
            writer.write(table, bars(shown, groups="probe", bars="vectors", heights="accuracy"))

    @abstractmethod
    def probe(self, encoders: list[VectorEncoder], folder: Path) -> Table:
        """Measures the accuracy of each kind of vectors, and of a baseline; works in `folder`."""


class TagProbe(Probe):
    name = "pos"
    help = "Parts of speech."
    description = """Tags words by a linear classifier. TRAIN and DEV are CoNLL-U, or a word and its tag a
        line. The baseline gives each word its most frequent tag."""

    tags: str = option("column of the tags in CoNLL-U", "upos", choices=TAG_COLUMNS)

    def probe(self, encoders: list[VectorEncoder], folder: Path) -> Table:
        train, dev = (read_tagged(path, column=self.tags) for path in (self.train, self.dev))
        total = sum(len(sentence.words) for sentence in dev)
        table = Table(_PROBE_COLUMNS)
        for encoder in encoders:
            for name, correct in tagging_probe(encoder, train, dev, folder).items():
                table.add(name, correct / total, correct, total)
        correct = most_frequent_tag(train, dev)
        table.add("most frequent tag", correct / total, correct, total)
        return table


class SensesProbe(Probe):
    name = "wsd"
    help = "Word senses."
    description = f"""Gives a word the sense whose averaged vector is nearest. TRAIN and DEV are JSON Lines,
        or NAME.data.xml with NAME.gold.key.txt. {_STATIC_IN_SENTENCE} The baseline gives each lemma its most
        frequent sense."""

    first_senses: Input | None = option(
        "WordNet's index.sense, for lemmas that TRAIN does not have (default: these count as wrong); lemmas "
        "in JSON Lines need their part of speech, as dog.NOUN",
        metavar="FILE",
    )

    def probe(self, encoders: list[VectorEncoder], folder: Path) -> Table:
        train, dev = read_senses(self.train), read_senses(self.dev)
        first = read_first_senses(self.first_senses) if self.first_senses is not None else {}
        baseline = sense_baseline(train, dev, first)
        if baseline.unseen:
            print(f"{baseline.unseen:,} of {baseline.total:,} words of DEV have a lemma that TRAIN has not")
        table = Table(_PROBE_COLUMNS)
        for encoder in encoders:
            for name, correct in sense_probe(encoder, train, dev, first).items():
                table.add(name, correct / baseline.total, correct, baseline.total)
        table.add("most frequent sense", baseline.correct / baseline.total, baseline.correct, baseline.total)
        return table


class UseProbe(Probe):
    name = "wic"
    help = "Word in Context: the same sense, or not."
    description = f"""Gives two uses of a word the same sense if their cosine reaches a threshold that is
        chosen on TRAIN. TRAIN and DEV are WiC's own files or SuperGLUE's. {_STATIC_IN_SENTENCE} The
        baseline gives the more frequent answer."""

    def probe(self, encoders: list[VectorEncoder], folder: Path) -> Table:
        train, dev = read_use_pairs(self.train), read_use_pairs(self.dev)
        # (pairs,) each
        gold, dev_gold = (torch.tensor([pair.same for pair in pairs]) for pairs in (train, dev))
        table = Table((*_PROBE_COLUMNS, "threshold", "accuracy on train"))
        for encoder in encoders:
            rows = zip(encoder.names, use_cosines(encoder, train), use_cosines(encoder, dev), strict=True)
            for name, cosines, dev_cosines in rows:
                threshold = choose_threshold(cosines, gold)
                correct = int(((dev_cosines >= threshold.cosine) == dev_gold).sum())
                scores = (correct / len(dev), correct, len(dev))
                table.add(name, *scores, threshold.cosine, threshold.correct / len(train))
        frequent = 2 * int(gold.sum()) >= len(gold)
        correct, correct_on_train = (int((labels == frequent).sum()) for labels in (dev_gold, gold))
        scores = (correct / len(dev), correct, len(dev))
        table.add("more frequent answer", *scores, None, correct_on_train / len(train))
        return table


PROBE = VerbGroup(
    name="probe",
    help="Parts of speech and word senses, layer by layer.",
    description="""Trains a simple classifier on the frozen vectors of TRAIN, and reports its accuracy on DEV:
        for each layer of a biLM, their average, given mixes and static vectors, and for a baseline that
        needs no vectors.""",
    metavar="PROBE",
    verbs={"Probes": (TagProbe, SensesProbe, UseProbe)},
)


_NEIGHBOR_COLUMNS = ("query", "vectors", "rank", "cosine", "line", "neighbor")


class Neighbors(Verb):
    name = "neighbors"
    help = "Nearest neighbours of a word in context."
    description = """Shows the tokens of a text, in their sentences, that are nearest to a word in its
        sentence, by the cosine of their vectors: for each layer of a biLM, their average and given mixes; and
        the words that are nearest by static vectors. The search is exact, and memory does not grow with the
        text."""

    word: str = positional("WORD", "the word, as written in the sentence")
    corpus: Input = option(
        "text, one tokenised sentence a line, gzip or not: a file, folder, pattern or URL, or - for stdin",
        metavar="TEXT",
        required=True,
    )
    sentence: list[str] = option(
        "a tokenised sentence with WORD, whose first occurrence counts; may be repeated",
        [],
        action="append",
        metavar="TEXT",
    )
    line: list[Positive] = option(
        "the number of a line of TEXT with WORD, from 1; may be repeated (default, without "
        "--sentence: the first that has WORD)",
        [],
        action="append",
    )
    top: Positive = option("the number of neighbours", 5)
    vectors: VectorArguments
    results: ResultArguments

    def run(self) -> None:
        word = self.word
        with self.results.writer() as writer:
            text = copy_corpus(self.corpus, writer.folder)
            queries = self._queries(text)
            encoder, static = self.vectors.encoders()
            bar = progress(text, total=len(text), work="neighbors", unit="lines")
            nearest = nearest_tokens(encoder, queries, text_blocks(encoder, bar), count=self.top)
            table = Table(_NEIGHBOR_COLUMNS)
            for query, by_row in zip(queries, nearest, strict=True):
                for name, neighbors in zip(encoder.names, by_row, strict=True):
                    for rank, (line, position, cosine) in enumerate(neighbors, start=1):
                        token = Occurrence(text[line].split(), position)
                        table.add(query.marked(), name, rank, cosine, line + 1, token.marked())
            for vectors in static:
                if not vectors.known([word]).all():
                    table.add(word, vectors.names[0], None, None, None, "(unknown)")
                else:
                    for rank, (other, cosine) in enumerate(vectors.nearest(word, self.top), start=1):
                        table.add(word, vectors.names[0], rank, cosine, None, other)
            writer.write(table)

    def _queries(self, text: Corpus) -> list[Occurrence]:
        if (last := max(self.line, default=0)) > len(text):
            raise ConfigurationError(f"--line {last}: {self.corpus} has {len(text):,} lines")
        sentences = [*self.sentence, *(text[line - 1] for line in self.line)]
        if not sentences:
            with_word = (line for line in text if self.word in line.split())
            sentences = [*islice(with_word, 1)]
        tokens_of_sentences = [sentence.split() for sentence in sentences]
        if not sentences or any(self.word not in tokens for tokens in tokens_of_sentences):
            sources = "--sentence or --line" if self.sentence or self.line else self.corpus
            raise ConfigurationError(f"the word {self.word!r} is missing in {sources}")
        return [Occurrence(tokens, tokens.index(self.word)) for tokens in tokens_of_sentences]


class Similar(Verb):
    name = "similar"
    help = "The nearest sentences of a text."
    description = """Shows the lines of a text, or the rows of a table, whose vectors by `elmo:sentence` have
        the highest cosine with the vector of a sentence. Memory does not grow with the text."""

    sentence: str = positional("SENTENCE", "the sentence")
    corpus: Input = option(
        "text, one sentence a line, gzip or not, or csv, JSON or Parquet: a file, folder, pattern or URL",
        metavar="TEXT",
        required=True,
    )
    text: str | None = option(
        "the column of the sentences in a table (default: the only one of texts)", metavar="COLUMN"
    )
    top: Positive = option("the number of lines", 5)
    results: ResultArguments

    def run(self) -> None:
        model = load("sentence")
        query = _unit(model(self.sentence).vector)
        lines, copy = tee(self._sentences())
        cosines = (float(query @ _unit(result.vector)) for result in model.stream(text for *_, text in copy))
        nearest = heapq.nlargest(self.top, zip(cosines, lines, strict=False), key=lambda pair: pair[0])
        with self.results.writer() as writer:
            table = Table(("rank", "cosine", "file", "line", "sentence"))
            for rank, (cosine, (file, number, text)) in enumerate(nearest, start=1):
                table.add(rank, cosine, str(file), number, text.strip())
            writer.write(table)

    def _sentences(self) -> Iterator[tuple[Path, int, str]]:
        """Yields the file, the line and the text of each sentence."""
        column = self.text or _column_of_texts(self.corpus)
        if column is None:
            yield from ((file, *line) for file in input_files(self.corpus) for line in nonblank_lines(file))
            return
        for row in text_rows(self.corpus, [column]):
            if (text := row.values[column]).strip():
                yield row.path, row.line, text


def _column_of_texts(path: str) -> str | None:
    """Returns the only column of texts in a table; `None` for a text. `InputError`: there is not one."""
    file = input_files(path)[0]
    if file.suffix not in TABLE_FILES and record_format(file) == "delimited":
        return None
    sample = sample_of(path)
    if (table := read_table(sample)) is None:
        return None
    if len(texts := table.of_kind("text")) != 1:
        raise InputError(
            f"this is {container(sample)}", where=path, remedy="--text COLUMN names the sentences"
        )
    return texts[0].name


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / max(float(np.linalg.norm(vector)), 1e-9)
