"""`allennlp elmo probe`: what simple classifiers find in frozen layers."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from elmo_tasks.commands.arguments import add_vector_arguments, read_bilm_encoder, read_static_vectors
from elmo_tasks.commands.base import Source, Subparsers, Verb
from elmo_tasks.commands.results import add_output_arguments, open_results
from elmo_tasks.common.plot import bars
from elmo_tasks.common.table import Table
from elmo_tasks.evaluation.senses import SenseProbe, read_first_senses, read_senses, sense_baseline
from elmo_tasks.evaluation.tagging import TAG_COLUMNS, most_frequent_tag, read_conllu, tagging_probe
from elmo_tasks.evaluation.word_in_context import choose_threshold, read_use_pairs, use_cosines
from elmo_tasks.vectors.encoder import Encoder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("vectors", "accuracy", "correct", "total")

_POS = """Tags by a linear classifier. TRAIN and DEV are CoNLL-U. The baseline gives each word its most
    frequent tag."""
_STATIC = "The static vector of a word in a sentence is the mean of those of the other words."
_WSD = f"""The sense of a word is the one whose averaged vector is nearest. TRAIN and DEV are JSON Lines, or
    NAME.data.xml with NAME.gold.key.txt. {_STATIC} The baseline gives each lemma its most frequent sense."""
_WIC = f"""Two uses of a word have the same sense from a cosine on that is chosen on TRAIN. {_STATIC} The
    baseline gives the more frequent answer."""


class Probe(Verb):
    """See `evaluation.tagging`, `evaluation.senses` and `evaluation.word_in_context`."""

    name = "probe"
    help = "Parts of speech and word senses, layer by layer."
    description = """Trains a simple classifier on the frozen vectors of TRAIN, and reports its accuracy on
        DEV: for each layer of a biLM, their average, given mixes and static vectors, beside a baseline that
        needs no vectors."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        kinds = parser.add_subparsers(title="Probes", metavar="PROBE", required=True)
        pos = _add_probe(kinds, "pos", "Parts of speech.", _POS, probe_tags)
        pos.add_argument("--tags", choices=TAG_COLUMNS, default="upos", help="column of the tags")
        wsd = _add_probe(kinds, "wsd", "Word senses.", _WSD, probe_senses)
        wsd.add_argument(
            "--first-senses",
            type=Source,
            metavar="FILE",
            help="WordNet's index.sense, for lemmas that TRAIN has not (default: these count as wrong); "
            "lemmas in JSON Lines need their part of speech, as dog.NOUN",
        )
        _add_probe(kinds, "wic", "Word in Context: the same sense, or not.", _WIC, probe_uses)

    def run(self, arguments: argparse.Namespace) -> None:
        with open_results(arguments) as output:
            table = arguments.probe(arguments, output.folder)
            output.write(table, _figure(table))


def probe_tags(arguments: argparse.Namespace, folder: Path) -> Table:
    train, dev = (read_conllu(path, column=arguments.tags) for path in (arguments.train, arguments.dev))
    total = sum(len(sentence.words) for sentence in dev)
    table = Table(COLUMNS)
    for encoder in _encoders(arguments):
        for name, correct in tagging_probe(encoder, train, dev, folder).items():
            table.add(name, correct / total, correct, total)
    correct = most_frequent_tag(train, dev)
    table.add("most frequent tag", correct / total, correct, total)
    return table


def probe_senses(arguments: argparse.Namespace, folder: Path) -> Table:
    train, dev = read_senses(arguments.train), read_senses(arguments.dev)
    first = read_first_senses(arguments.first_senses) if arguments.first_senses is not None else {}
    baseline = sense_baseline(train, dev, first)
    if baseline.unseen:
        print(f"{baseline.unseen:,} of {baseline.total:,} words of DEV have a lemma that TRAIN has not")
    table = Table(COLUMNS)
    for encoder in _encoders(arguments):
        probe = SenseProbe(encoder=encoder, first_senses=first)
        probe.train(train)
        for name, correct in probe.correct(dev).items():
            table.add(name, correct / baseline.total, correct, baseline.total)
    table.add("most frequent sense", baseline.correct / baseline.total, baseline.correct, baseline.total)
    return table


def probe_uses(arguments: argparse.Namespace, folder: Path) -> Table:
    train, dev = read_use_pairs(arguments.train), read_use_pairs(arguments.dev)
    # (pairs,) each
    gold, dev_gold = (torch.tensor([pair.same for pair in pairs]) for pairs in (train, dev))
    table = Table((*COLUMNS, "threshold", "accuracy on train"))
    for encoder in _encoders(arguments):
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


def _add_probe(
    kinds: Subparsers,
    name: str,
    short: str,
    description: str,
    probe: Callable[[argparse.Namespace, Path], Table],
) -> argparse.ArgumentParser:
    parser = kinds.add_parser(name, description=description, help=short)
    parser.add_argument(
        "train", type=Source, metavar="TRAIN", help="file, folder, pattern or URL, gzip or not"
    )
    parser.add_argument("dev", type=Source, metavar="DEV", help="the same")
    add_vector_arguments(parser)
    add_output_arguments(parser)
    parser.set_defaults(probe=probe)
    return parser


def _encoders(arguments: argparse.Namespace) -> list[Encoder]:
    return [read_bilm_encoder(arguments), *read_static_vectors(arguments)]


def _figure(table: Table) -> "Figure":
    shown = Table(("probe", "vectors", "accuracy"), [("", row[0], row[1]) for row in table.rows])
    return bars(shown, groups="probe", bars="vectors", heights="accuracy")
