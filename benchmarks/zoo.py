"""The archives that come with the project: trained from several seeds, and the best one made small."""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from allennlp.commands import evaluate
from allennlp.common import Params
from allennlp.common.util import lazy_groups_of
from allennlp.data import Batch, BatchSampler, Instance
from allennlp.models.archival import CONFIG_NAME

from benchmarks.calibration import CALIBRATIONS, calibrate
from benchmarks.results import Results, add_results_argument, show, shown
from elmo_tasks import __version__, load
from elmo_tasks.archives import TRAINED, extracted_archive, slim
from elmo_tasks.commands.experiments import train_and_report
from elmo_tasks.commands.partial_outputs import partial_file
from elmo_tasks.common.files import atomic_file, bundled
from elmo_tasks.common.table import Table
from elmo_tasks.data.formats.columns import line_groups
from elmo_tasks.data.formats.roles import RoleOptions, read_columns
from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.data.reader import TaskReader
from elmo_tasks.elmo import Elmo
from elmo_tasks.modules.elmo_model import TaskModel
from elmo_tasks.pipeline.command import PredictManager
from elmo_tasks.pipeline.predictor import TaskPredictor
from elmo_tasks.training.experiments import plan, score, validation_metric

Rows = Iterator[list[tuple[str, str]]]
"""Sentences of words and tags."""


def entities(path: Path) -> Rows:
    """Yields the sentences of a file in columns, without entities of type MISC."""
    for lines in line_groups(read_lines(path), separators=("-DOCSTART-",)):
        cells = [line.split() for _, line in lines]
        yield [(row[0], "O" if row[-1].endswith("-MISC") else row[-1]) for row in cells]


def predicates(path: Path) -> Rows:
    """Yields the sentences of a file of semantic roles; the predicates have the tag `B-V`."""
    for sentence in read_columns(path, RoleOptions()):
        if isinstance(sentence, InputError):
            raise sentence
        positions = {predicate.index for predicate in sentence.predicates}
        yield [(word, "B-V" if i in positions else "O") for i, word in enumerate(sentence.words)]


def recased(sentences: Rows) -> Rows:
    """Yields sentences; each fifth one also in lower case, and each tenth in upper case."""
    for number, sentence in enumerate(sentences):
        yield sentence
        if number % 5 == 0:
            yield [(word.lower(), tag) for word, tag in sentence]
        elif number % 10 == 3:
            yield [(word.upper(), tag) for word, tag in sentence]


class Recipe(NamedTuple):
    """The data of an archive: files or patterns below DATA, for training and to choose the best seed."""

    train: tuple[str, ...]
    dev: tuple[str, ...]
    read: Callable[[Path], Rows] | None = None
    """Reads a file, if one file in columns is made of them first."""
    augment: Callable[[Rows], Rows] = iter
    """What the sentences of a training file become."""
    last: tuple[str, ...] = ()
    """Files that the model is then trained on alone, by `NAME_last.jsonnet`."""


OPEN_GENRES = (
    "academic",
    "bio",
    "conversation",
    "court",
    "interview",
    "news",
    "speech",
    "textbook",
    "vlog",
    "voyage",
)
"""The genres of OntoGUM whose texts are under CC BY or CC BY-SA, or in the public domain."""
ONTOGUM = tuple(f"coref_ontogum/train/GUM_{genre}_*" for genre in OPEN_GENRES)
NER_FILES = (
    "ner/uner_ewt/{}.txt",
    "ner_open/btc_{}.conll",
    "ner_open/wikigold_{}.conll",
    "ner_more/crossner_{}.conll.gz",
    "ner_more/redocred_{}.conll.gz",
    "ner_more/uner_pud_{}.conll.gz",
)
"""The training and dev files with persons, organizations and places."""
ZOO = {
    "ner": Recipe(
        # Tweets twice: otherwise the text from Wikipedia in the other sets costs them 1.5 points of F1.
        (*(file.format("train") for file in NER_FILES), "ner_open/btc_train.conll"),
        tuple(file.format("dev") for file in NER_FILES),
        entities,
        # Without the copies, F1 is 19 on the same dev sets in lower case, and 11 in upper case.
        recased,
    ),
    "predicates": Recipe(("srl_ewt/train.gold_conll",), ("srl_ewt/dev.gold_conll",), predicates),
    "snli": Recipe(("snli/train.jsonl",), ("snli/dev.jsonl",)),
    "srl": Recipe(("srl_ewt/train.gold_conll",), ("srl_ewt/dev.gold_conll",)),
    "squad": Recipe(("squad/train.json",), ("squad/dev.json",)),
    "coref": Recipe((*ONTOGUM, "coref_litbank/train"), ("coref_ontogum/dev",), last=ONTOGUM),
    "sst": Recipe(("sst5/train.txt",), ("sst5/dev.txt",)),
    "topics": Recipe(("ag_news/train.csv",), ("ag_news/dev.csv",)),
}


class Zoo:
    """
    Trains the archive NAME by `training_configs/models/NAME.jsonnet` and writes `OUT/NAME.tar.gz`: the seed
    that is best on the dev set, without the biLM, and with its probabilities calibrated on the dev set. The
    runs are below OUT; a killed command resumes there.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", choices=ZOO)
        parser.add_argument("data", type=Path, help="folder of the corpora")
        parser.add_argument("output", type=Path)
        parser.add_argument("--seeds", type=int, nargs="+", default=[13, 14, 15])

    @staticmethod
    def run(arguments: argparse.Namespace) -> None:
        name, output = arguments.name, arguments.output
        recipe, folder = ZOO[name], output / name
        train, dev = (
            _files(recipe, [arguments.data / file for file in files], folder / f"{part}.conll", augment)
            for part, files, augment in (("train", recipe.train, recipe.augment), ("dev", recipe.dev, iter))
        )
        config = _config(name) | {"train_data_path": train, "validation_data_path": dev}
        config["model"]["elmo"]["activations"] = str(folder / "activations")
        runs = plan(config, {"model": {}}, seeds=arguments.seeds, folder=folder)
        train_and_report(runs, jobs=1, packages=[])
        if recipe.last:
            files = [str(arguments.data / file) for file in recipe.last]
            last = _config(f"{name}_last") | {"train_data_path": files, "validation_data_path": dev}
            models = [
                {"type": "from_archive", "archive_file": str(run.folder / "model.tar.gz")} for run in runs
            ]
            runs = [
                run
                for model, seed in zip(models, arguments.seeds, strict=True)
                for run in plan(last | {"model": model}, {"last": {}}, seeds=[seed], folder=folder)
            ]
            train_and_report(runs, jobs=1, packages=[])
        best = max(runs, key=lambda run: score(run) or 0.0)
        show(Table(("seed", validation_metric(config)), [(run.seed, score(run)) for run in runs]))
        archive = best.folder / "model.tar.gz"
        with (
            extracted_archive(archive) as unpacked,
            partial_file(output / f"{name}.tar.gz", force=True) as path,
        ):
            # Without the paths of this machine
            own = _config(name) | {"train_data_path": recipe.train, "validation_data_path": recipe.dev}
            own |= dict.fromkeys(("random_seed", "numpy_seed", "pytorch_seed"), best.seed)
            Path(unpacked, CONFIG_NAME).write_text(json.dumps(own, indent=4), encoding="utf-8")
            if name in CALIBRATIONS:
                calibrate(name, archive, Path(unpacked), [dev] if isinstance(dev, str) else dev)
            slim(unpacked, path, dtype="float16", version=__version__)


class ZooSpeed:
    """
    Times the archives on 1,000 sentences, without the opening: `predict` of the first lines of TEXT, one
    sentence each, in batches of 64. They are pairs of neighbours for `snli`, documents of 25 for `coref`, and
    passages of 9 with the tenth as the question for `squad`. With DATA, `evaluate` of the dev data, too.

    It shows the tokens/s of the whole and of the encoder alone in the same run, and the shares of the time:
    reading (lines and words), indexing (batches of ids), ELMo, the rest of the model, and what is left for
    metrics and the writing of results. A token is one that the encoder reads.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("text", type=Path)
        parser.add_argument("data", type=Path, nargs="?", help="folder of the corpora")
        parser.add_argument("--names", nargs="+", choices=ZOO, default=list(ZOO))
        add_results_argument(parser)

    @staticmethod
    def run(arguments: argparse.Namespace) -> None:
        sentences = [line for _, line in read_lines(arguments.text) if line.strip()][:1000]
        results = Results("zoo-speed", arguments.csv)
        table = Table(("archive", "command", "seconds", "tokens/s", "of the encoder", *PARTS))
        for name in arguments.names:
            archive = f"{TRAINED}{name}"
            with tempfile.TemporaryDirectory() as folder:
                clocks = {"predict": _predict(archive, _examples(name, sentences), Path(folder))}
                if arguments.data:
                    recipe = ZOO[name]
                    paths = [arguments.data / file for file in recipe.dev]
                    clocks["evaluate"] = _evaluate(archive, _files(recipe, paths, Path(folder, "dev.conll")))
            for command, clock in clocks.items():
                seconds = sum(clock.seconds[part] for part in PARTS)
                values = {"seconds": seconds, "tokens/s": clock.tokens / seconds}
                values["of the encoder"] = clock.tokens / clock.seconds["ELMo"]
                values |= {part: clock.seconds[part] / seconds for part in PARTS}
                table.add(name, command, *map(shown, values.values()))
                for metric, value in values.items():
                    results.add(name, 0, f"{command}: {metric}", value)
        show(table)


PARTS = ("reading", "indexing", "ELMo", "rest of the model", "metrics and writing")
OPENING, READING, INDEXING, ENCODER, MODEL, REST = "opening", *PARTS


class Clock:
    """The seconds of each part of a run, without the parts inside it, and the tokens encoded."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((OPENING, *PARTS), 0.0)
        self.tokens = 0
        self._part, self._since = REST, time.perf_counter()

    def enter(self, part: str) -> str:
        """Counts for the part from now on; returns the one before."""
        now, before = time.perf_counter(), self._part
        self.seconds[before] += now - self._since
        self._part, self._since = part, now
        return before

    def timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            before = self.enter(part)
            try:
                result = function(*args, **options)
                if part == ENCODER:
                    # (batch, tokens, characters)
                    self.tokens += int((args[1] > 0).any(dim=-1).sum())
                return self._each(result, part) if isinstance(result, Iterator) else result
            finally:
                self.enter(before)

        return call

    def _each(self, items: Iterator[Any], part: str) -> Iterator[Any]:
        following = self.timed(partial(next, items, None), part)
        while (item := following()) is not None:
            yield item


@contextmanager
def _clock() -> Iterator[Clock]:
    """A clock of all that is run in the block."""
    clock = Clock()
    functions = [
        (evaluate, "load_archive", OPENING),
        (TaskReader, "read", READING),
        (TaskPredictor, "load_line", READING),
        (TaskPredictor, "_examples", READING),
        (TaskReader, "apply_token_indexers", INDEXING),
        (Instance, "index_fields", INDEXING),
        (Batch, "index_instances", INDEXING),
        (Batch, "as_tensor_dict", INDEXING),
        (BatchSampler.by_name("elmo_bucket"), "get_batch_indices", INDEXING),
        (TaskModel, "__call__", MODEL),
        (TaskPredictor, "run", MODEL),
        (Elmo, "forward", ENCODER),
    ]
    with ExitStack() as stack:
        for owner, function, part in functions:
            stack.enter_context(patch.object(owner, function, clock.timed(getattr(owner, function), part)))
        yield clock
        clock.enter(REST)


def _predict(archive: str, examples: Iterator[tuple[str, ...]], folder: Path) -> Clock:
    """After a first line, with which modules are imported and weights packed."""
    predictor = load(archive).predictor
    names, lines, output = list(predictor.forms[0]), folder / "input.jsonl", folder / "output.jsonl"
    inputs = [json.dumps(dict(zip(names, texts, strict=True))) for texts in examples]
    for some in (inputs[:1], inputs):
        lines.write_text("\n".join(some), encoding="utf-8")
        with _clock() as clock:
            PredictManager(predictor, str(lines), str(output), 64, False, False).run()
    return clock


def _evaluate(archive: str, data: str | list[str]) -> Clock:
    with _clock() as clock:
        evaluate.evaluate_from_archive(archive, data if isinstance(data, str) else ",".join(data))
    return clock


def _examples(name: str, sentences: list[str]) -> Iterator[tuple[str, ...]]:
    for group in lazy_groups_of(sentences, {"snli": 2, "squad": 10, "coref": 25}.get(name, 1)):
        if name == "squad":
            yield " ".join(group[:-1]), group[-1]
        else:
            yield tuple(group) if name == "snli" else (" ".join(group),)


def _config(name: str) -> dict[str, Any]:
    return Params.from_file(str(bundled(f"training_configs/models/{name}.jsonnet"))).as_dict(quiet=True)


def _files(
    recipe: Recipe, paths: list[Path], made: Path, augment: Callable[[Rows], Rows] = iter
) -> str | list[str]:
    """Returns the paths for a config; makes the files first if the recipe asks for it."""
    if recipe.read is None:
        return str(paths[0]) if len(paths) == 1 else [str(path) for path in paths]
    made.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(made) as file:
        for path in paths:
            for rows in augment(recipe.read(path)):
                file.write("".join(f"{word}\t{tag}\n" for word, tag in rows).encode() + b"\n")
    return str(made)
