"""The archives that come with the project: trained from several seeds, and the best one made small."""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from allennlp.commands import evaluate
from allennlp.common import Params
from allennlp.common.util import lazy_groups_of
from allennlp.data import Batch, BatchSampler, Instance
from allennlp.models.archival import CONFIG_NAME

from benchmarks.calibration import CALIBRATIONS, calibrate, calibrate_answers
from benchmarks.results import Results, add_results_argument, show, shown
from benchmarks.zoo_data import STATIC_SETTINGS, ZOO, Recipe, Sentence, balanced
from elmo_tasks import __version__, load
from elmo_tasks.archives.opening import TRAINED, extracted_archive, trained_archives
from elmo_tasks.archives.slim import slim
from elmo_tasks.commands.experiments import train_and_report
from elmo_tasks.commands.partial_outputs import partial_file
from elmo_tasks.commands.vectors import train_file
from elmo_tasks.common.files import atomic_file, bundled
from elmo_tasks.common.table import Table
from elmo_tasks.data.input_files import read_lines
from elmo_tasks.data.reader import TaskReader
from elmo_tasks.elmo import Elmo
from elmo_tasks.modules.elmo_model import TaskModel
from elmo_tasks.pipeline.command import predict_file
from elmo_tasks.pipeline.predictor import TaskPredictor
from elmo_tasks.training.experiments import plan, score, validation_metric

SECONDS_OF_CHECKPOINTS = 600.0
"""The time between checkpoints within an epoch."""


class Zoo:
    """
    Trains the archive NAME by `training_configs/models/NAME.jsonnet` and writes `OUT/NAME.tar.gz`: the seed
    that is best on the dev set, without the biLM. Its probabilities are calibrated on dev data that chose
    neither the seed nor the epoch, if the recipe has such. At the end, the scores on each of the files of dev
    data are shown. The runs are below OUT; a killed command resumes there.
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
        train, dev, calibration = (
            _files_of(part, recipe, arguments.data, folder) for part in ("train", "dev", "calibration")
        )
        config = _config(name) | {"train_data_path": train, "validation_data_path": dev}
        config["model"]["elmo"]["activations"] = str(folder / "activations")
        if recipe.static_text is not None:
            file = _static_vectors(recipe.static_text(arguments.data), folder)
            config["model"]["static_vectors"] = {"pretrained_file": file}
        config["trainer"]["checkpointer"]["save_every_num_seconds"] = SECONDS_OF_CHECKPOINTS
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
            files = [calibration] if isinstance(calibration, str) else calibration
            if name in CALIBRATIONS:
                calibrate(name, archive, Path(unpacked), files)
            elif name == "squad":
                calibrate_answers(archive, Path(unpacked), files)
            slim(unpacked, path, dtype="float16", version=__version__)
        show(_scores(output / f"{name}.tar.gz", recipe, arguments.data, validation_metric(config)))


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
        parser.add_argument("--names", nargs="+", choices=ZOO, default=list(trained_archives()))
        add_results_argument(parser)

    @staticmethod
    def run(arguments: argparse.Namespace) -> None:
        sentences = [line for _, line in read_lines(arguments.text) if line.strip()][:1000]
        results = Results("zoo-speed", arguments.csv)
        table = Table(("archive", "command", "seconds", "tokens/s", "of the encoder", *PARTS))
        for name in arguments.names:
            archive = f"{TRAINED}{name}"
            with tempfile.TemporaryDirectory() as folder:
                clocks = {"predict": _predict(archive, examples(name, sentences), Path(folder))}
                if arguments.data:
                    dev = _files_of("dev", ZOO[name], arguments.data, Path(folder))
                    clocks["evaluate"] = _evaluate(archive, dev)
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
            predict_file(predictor, str(lines), str(output), batch_size=64)
    return clock


def _evaluate(archive: str, data: str | list[str]) -> Clock:
    with _clock() as clock:
        evaluate.evaluate_from_archive(archive, data if isinstance(data, str) else ",".join(data))
    return clock


def examples(name: str, sentences: list[str]) -> Iterator[tuple[str, ...]]:
    for group in lazy_groups_of(sentences, {"snli": 2, "squad": 10, "coref": 25}.get(name, 1)):
        if name == "squad":
            yield " ".join(group[:-1]), group[-1]
        else:
            yield tuple(group) if name == "snli" else (" ".join(group),)


def _config(name: str) -> dict[str, Any]:
    return Params.from_file(str(bundled(f"training_configs/models/{name}.jsonnet"))).as_dict(quiet=True)


def _scores(archive: Path, recipe: Recipe, data: Path, metric: str) -> Table:
    """Returns the score on each of the files of dev data, or on their records together."""
    table = Table(("dev data", metric))
    with tempfile.TemporaryDirectory() as folder:
        for file in (*recipe.dev, *recipe.calibration):
            path = _files(recipe, [data / file], Path(folder, "dev.conll"))
            table.add(file, evaluate.evaluate_from_archive(str(archive), str(path))[metric])
        if recipe.records is not None:
            path = _files_of("dev", recipe, data, Path(folder))
            table.add("all", evaluate.evaluate_from_archive(str(archive), str(path))[metric])
    return table


def _files_of(part: str, recipe: Recipe, data: Path, folder: Path) -> str | list[str]:
    """Returns the paths of the part `train`, `dev` or `calibration` for a config, see `_files`."""
    made = folder / f"{part}.conll"
    if recipe.records is not None:
        lines = (json.dumps(record) for record in recipe.records(data, "train" if part == "train" else "dev"))
        return _write(lines, made.with_suffix(".jsonl"))
    if part == "train" and recipe.training is not None:
        return _write(map(as_lines, recipe.training(data)), made)
    files = {"train": recipe.train, "dev": recipe.dev, "calibration": recipe.calibration or recipe.dev}
    return _files(recipe, [data / file for file in files[part]], made)


def _files(recipe: Recipe, paths: list[Path], made: Path) -> str | list[str]:
    """Returns the paths for a config; makes one file of them first if the recipe asks for it."""
    if recipe.read is None:
        return str(paths[0]) if len(paths) == 1 else [str(path) for path in paths]
    return _write(map(as_lines, balanced(map(recipe.read, paths))), made)


def as_lines(sentence: Sentence) -> str:
    return "".join(f"{word}\t{tag}\n" for word, tag in sentence)


def _static_vectors(lines: Iterable[str], folder: Path) -> str:
    """Trains them, unless a killed command has done so."""
    vectors = folder / "static.txt.gz"
    if not vectors.exists():
        text = _write(lines, folder / "static_text.txt")
        train_file("word2vec", text, vectors, lowercase=True, **STATIC_SETTINGS)
    return str(vectors)


def _write(records: Iterable[str], path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        for record in records:
            file.write(f"{record}\n".encode())
    return str(path)
