"""`allennlp elmo probe`: what simple classifiers find in frozen layers."""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

import torch

from elmo_tasks.commands.arguments import VectorArguments
from elmo_tasks.commands.base import Input, Verb, VerbGroup, option, positional
from elmo_tasks.commands.results import ResultArguments
from elmo_tasks.common.plot import bars
from elmo_tasks.common.table import Table
from elmo_tasks.evaluation.senses import SenseProbe, read_first_senses, read_senses, sense_baseline
from elmo_tasks.evaluation.tagging import TAG_COLUMNS, most_frequent_tag, read_tagged, tagging_probe
from elmo_tasks.evaluation.word_in_context import choose_threshold, read_use_pairs, use_cosines
from elmo_tasks.vectors.encoder import Encoder

COLUMNS = ("vectors", "accuracy", "correct", "total")
_STATIC = "The static vector of a word in a sentence is the mean of the vectors of the other words."


@dataclass(frozen=True, kw_only=True)
class Probe(Verb):
    """A verb that trains a probe on each kind of vectors."""

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
    def probe(self, encoders: list[Encoder], folder: Path) -> Table:
        """Returns the accuracy for each kind of vectors, and for a baseline; works in `folder`."""


@dataclass(frozen=True, kw_only=True)
class TagProbe(Probe):
    """The verb `probe pos`; see `evaluation.tagging`."""

    name = "pos"
    help = "Parts of speech."
    description = """Tags by a linear classifier. TRAIN and DEV are CoNLL-U, or a word and its tag a
        line. The baseline gives each word its
        most frequent tag."""

    tags: str = option("column of the tags in CoNLL-U", "upos", choices=TAG_COLUMNS)

    def probe(self, encoders: list[Encoder], folder: Path) -> Table:
        train, dev = (read_tagged(path, column=self.tags) for path in (self.train, self.dev))
        total = sum(len(sentence.words) for sentence in dev)
        table = Table(COLUMNS)
        for encoder in encoders:
            for name, correct in tagging_probe(encoder, train, dev, folder).items():
                table.add(name, correct / total, correct, total)
        correct = most_frequent_tag(train, dev)
        table.add("most frequent tag", correct / total, correct, total)
        return table


@dataclass(frozen=True, kw_only=True)
class SensesProbe(Probe):
    """The verb `probe wsd`; see `evaluation.senses`."""

    name = "wsd"
    help = "Word senses."
    description = f"""Gives a word the sense whose averaged vector is nearest. TRAIN and DEV are JSON Lines,
        or NAME.data.xml with NAME.gold.key.txt. {_STATIC} The baseline gives each lemma its most frequent
        sense."""

    first_senses: Input | None = option(
        "WordNet's index.sense, for lemmas that TRAIN does not have (default: these count as wrong); lemmas "
        "in JSON Lines need their part of speech, as dog.NOUN",
        metavar="FILE",
    )

    def probe(self, encoders: list[Encoder], folder: Path) -> Table:
        train, dev = read_senses(self.train), read_senses(self.dev)
        first = read_first_senses(self.first_senses) if self.first_senses is not None else {}
        baseline = sense_baseline(train, dev, first)
        if baseline.unseen:
            print(f"{baseline.unseen:,} of {baseline.total:,} words of DEV have a lemma that TRAIN has not")
        table = Table(COLUMNS)
        for encoder in encoders:
            probe = SenseProbe(encoder=encoder, first_senses=first)
            probe.train(train)
            for name, correct in probe.correct(dev).items():
                table.add(name, correct / baseline.total, correct, baseline.total)
        table.add("most frequent sense", baseline.correct / baseline.total, baseline.correct, baseline.total)
        return table


@dataclass(frozen=True, kw_only=True)
class UseProbe(Probe):
    """The verb `probe wic`; see `evaluation.word_in_context`."""

    name = "wic"
    help = "Word in Context: the same sense, or not."
    description = f"""Gives two uses of a word the same sense if their cosine reaches a threshold that is
        chosen on TRAIN. TRAIN and DEV are WiC's own files or SuperGLUE's. {_STATIC} The
        baseline gives the more frequent answer."""

    def probe(self, encoders: list[Encoder], folder: Path) -> Table:
        train, dev = read_use_pairs(self.train), read_use_pairs(self.dev)
        # (pairs,) each
        gold, dev_gold = (torch.tensor([pair.same for pair in pairs]) for pairs in (train, dev))
        table = Table((*COLUMNS, "threshold", "accuracy on train"))
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
        for each layer of a biLM, their average, given mixes and static vectors, beside a baseline that needs
        no vectors.""",
    title="Probes",
    verbs=(TagProbe, SensesProbe, UseProbe),
)
