"""Systems of a task: trained from several seeds and scored, timed alternately, and as an ensemble."""

import argparse
import copy
import gc
import json
import shutil
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.params import with_overrides
from allennlp.common.util import import_module_and_submodules
from allennlp.models.archival import CONFIG_NAME
from allennlp.modules import elmo as peer_elmo

from benchmarks.bilms import SIZES, Files, bilm_files, finetuned
from benchmarks.configs import Settings, add_json_argument, read_config
from benchmarks.results import OURS, PEER, Results, show
from elmo_tasks.commands.base import positive
from elmo_tasks.commands.ensemble import Ensemble
from elmo_tasks.commands.experiments import train_and_report, with_vectors
from elmo_tasks.common.files import atomic_file
from elmo_tasks.common.table import Table
from elmo_tasks.data.input_files import input_files
from elmo_tasks.elmo import BiLmOptions, Elmo
from elmo_tasks.training.experiments import TrainingRun, check_same_config, score, validation_metric

CURVE_COLUMNS = ("system", "seed", "epoch", "score")


def finished_run(folder: Path) -> TrainingRun:
    """
    The run in a folder `VARIANT/seed-N`.

    # Raises
    `ConfigurationError`: no run, or one that is not done.
    """
    seed, config = folder.name.removeprefix("seed-"), folder / CONFIG_NAME
    if seed.isdecimal() and config.exists():
        run = TrainingRun(folder.parent.name, int(seed), json.loads(config.read_text()), folder)
        if run.metrics() is not None:
            return run
    raise ConfigurationError(f"{folder} has no finished run; name the folder seed-N of one")


def epoch_times(run: TrainingRun) -> list[float]:
    """
    Returns the seconds of each epoch, training and validation together. The clock restarts when a killed run
    resumes: an epoch whose clock is not later than the epoch before is left out.
    """
    times, before = [], 0.0
    for epoch in run.epochs():
        days, _, clock = epoch["training_duration"].rpartition(", ")
        hours, minutes, seconds = map(float, clock.split(":"))
        # From the last start of the process
        duration = 24 * 3600 * int(days.split()[0] if days else 0) + 3600 * hours + 60 * minutes + seconds
        if duration > before:
            times.append(duration - before)
        before = duration
    return times


def best_metrics(run: TrainingRun) -> dict[str, Any]:
    """The metrics on the validation data in the best epoch of a run that is done."""
    start = "best_validation_"
    metrics = run.metrics() or {}
    return {name.removeprefix(start): value for name, value in metrics.items() if name.startswith(start)}


def add_scores(results: Results, runs: list[TrainingRun], task: str = "") -> str:
    """The scores of runs that are done, in percent; what their metric is called, with the task before it."""
    metric = task + validation_metric(runs[0].config)
    for run in runs:
        results.add(run.variant, run.seed, metric, 100 * (score(run) or 0.0), sum(epoch_times(run)))
    return metric


def write_curve(runs: Iterable[TrainingRun], path: Path) -> None:
    """
    Writes the score of each epoch on the validation data, in percent, by the run's own metric. Runs that the
    file already holds are not changed.
    """
    table = Table.read(path) if path.exists() else Table(CURVE_COLUMNS)
    in_file = set(zip(table.column("system"), table.column("seed"), strict=True))
    for run in runs:
        if (run.variant, run.seed) not in in_file:
            for epoch, value in enumerate(run.scores(validation_metric(run.config)), start=1):
                table.add(run.variant, run.seed, epoch, round(100 * value, 4))
    with atomic_file(path) as file:
        file.write(table.csv().encode())


ELMO, PEER_ELMO, PEER_OUR_ELMO = "elmo", "peer-elmo", "peer-our-elmo"
OUR_ELMO = "our_elmo"
"""The name of our token embedder in a peer; `bcn` takes none that is called elmo."""
COMPUTED = "computed"
FINETUNED = f"{ELMO}-finetuned"
WORDS = "model.text_field_embedder.token_embedders.tokens"
PLACEMENTS = ("input", "output", "input+output")
ELMO_SYSTEMS = tuple(
    "-".join(filter(None, (ELMO, placement, computed)))
    for placement in ("", *PLACEMENTS)
    for computed in ("", COMPUTED)
)
SYSTEMS = (OURS, PEER, *ELMO_SYSTEMS, FINETUNED, PEER_ELMO, PEER_OUR_ELMO)
SYSTEMS_HELP = """`ours` and `peer` without ELMo; `elmo`, ours with the ELMo of its config; `elmo-input`,
    `elmo-output` and `elmo-input+output`, ours with it there; each also with `-computed`, which keeps no
    activations on disk; `elmo-finetuned`, with a biLM that has read the task's text; `peer-elmo`,
    the peer with AllenNLP's own of the same biLM at its input; `peer-our-elmo`, the peer with our token
    embedder there"""

EPOCH, FIRST_EPOCH, ELMO_PART, MEMORY, ACTIVATIONS = (
    "time of an epoch, s",
    "time of the first epoch, s",
    "ELMo in an epoch, s",
    "peak memory, GiB",
    "activations, MB",
)


def add_experiment_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of an experiment that trains from several seeds."""
    parser.add_argument("data", type=Path, help="folder of the data")
    parser.add_argument(
        "output", type=Path, help="folder of the runs and results; a killed command resumes there"
    )
    parser.add_argument("--seeds", type=int, nargs="*", default=[13, 14, 15], help="none: nothing is scored")
    parser.add_argument("--jobs", type=positive, default=1, help="runs at a time; times mean nothing then")
    add_json_argument(parser, "--overrides", "of ours, as for `allennlp train`")


class Comparison(ABC):
    """
    A task of ours compared with its peer in allennlp-models: score, time of an epoch and memory.

    First the systems are trained from each seed, each run in a process of its own; the best epoch counts, and
    OUT/curve.csv has the score of each. The time of an epoch is the median over all epochs after the first,
    training and validation together.

    Then short runs are timed, in this process: the speed of a shared machine drifts, so the systems take
    turns and are compared round by round. The seconds of ELMo are the time of its calls, ours or AllenNLP's,
    in all epochs after the first; the rest of an epoch is the task's.
    """

    config: ClassVar[str]
    """Name of our config; the config with ELMo ends in `_elmo`."""
    peer_package: ClassVar[str]
    metric: ClassVar[str]
    """The name of the score, in percent."""
    suffix: ClassVar[str]
    """Suffix of the training files."""
    unit: ClassVar[str]
    """The unit that `--limit` counts."""
    epochs: ClassVar[int]
    timed: ClassVar[tuple[int, int]] = (0, 0)
    timed_epochs: ClassVar[int] = 3
    timed_overrides: ClassVar[dict[str, Any]] = {}
    timed_elmo: ClassVar[str] = "elmo-computed"
    """The system that is timed against the peer with the same ELMo."""

    arguments: argparse.Namespace

    @abstractmethod
    def some(self, files: list[Path], number: int | None) -> str:
        """Returns the text of `number` units of the data, in one file or several; by default of all."""

    @abstractmethod
    def peer(self, ours: Settings, elmo_dim: int) -> Settings:
        """Returns the peer of ours at the same sizes, with `elmo_dim` more numbers in each word's vector."""

    def plug_elmo(self, peer: Settings, block: Settings) -> None:
        """Adds AllenNLP's ELMo to the words of the peer."""
        embedders = peer["model"]["text_field_embedder"]["token_embedders"]
        embedders["elmo"] = {"type": "elmo_token_embedder", **block}

    def scores(self, run: TrainingRun) -> dict[str, float]:
        """Returns the scores of a finished run, from 0 to 1: `metric`, and any others of the task."""
        value = score(run)
        assert value is not None
        return {self.metric: value}

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_experiment_arguments(parser)
        systems: dict[str, Any] = {"nargs": "+", "choices": SYSTEMS, "metavar": "SYSTEM"}
        counts: dict[str, Any] = {"type": int, "nargs": 2, "metavar": ("TRAIN", "DEV")}
        parser.add_argument("--systems", default=(OURS, PEER, ELMO), help=SYSTEMS_HELP, **systems)
        parser.add_argument("--epochs", type=positive, default=self.epochs)
        parser.add_argument("--limit", default=(0, 0), help=f"{self.unit} that are used, 0 for all", **counts)
        parser.add_argument("--vectors", help="fixed word vectors as text, for all systems")
        parser.add_argument("--size", choices=SIZES, default="shipped", help="of the biLM")
        add_json_argument(parser, "--elmo", "of the elmo block of ours")
        add_json_argument(parser, "--peer-overrides", "of the peer")
        parser.add_argument("--rounds", type=int, default=0, help="short runs that are timed")
        parser.add_argument("--timed", default=self.timed, help=f"{self.unit} of the short runs", **counts)
        parser.add_argument("--timed-epochs", type=positive, default=self.timed_epochs)
        parser.add_argument(
            "--time", help="systems that are timed alternately, against the last one", **systems
        )

    def run(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        output: Path = arguments.output
        output.mkdir(parents=True, exist_ok=True)
        files = bilm_files(output / "bilm", arguments.size)
        results = Results(self.config, output / "results.csv", keep=True)
        runs = list(self.scored_runs(files))
        if runs:
            module = type(self).__module__
            train_and_report(runs, jobs=arguments.jobs, packages=[self.peer_package, module])
            write_curve(runs, output / "curve.csv")
        for run in runs:
            if run.seed not in results.values(run.variant, self.metric):
                self.record(results, run, "")
                # The row that marks the run as recorded comes last, so that a kill before it loses nothing.
                for metric, value in sorted(
                    self.scores(run).items(), key=lambda each: each[0] == self.metric
                ):
                    results.add(run.variant, run.seed, metric, 100 * value, sum(epoch_times(run)))
        in_turn = [arguments.time] if arguments.time else [(OURS, PEER), (self.timed_elmo, PEER_ELMO)]
        for systems in in_turn if arguments.rounds else ():
            self.time(systems, files, results)
        pairs = [(ours, PEER) for ours in SYSTEMS if ours != PEER]
        pairs += [(ours, PEER_ELMO) for ours in (*ELMO_SYSTEMS, PEER_OUR_ELMO)]
        show(results.means(), results.ratios(pairs, of=", "), results.gains(self.metric, OURS))

    def scored_runs(self, files: Files) -> Iterator[TrainingRun]:
        """The systems take turns."""
        arguments = self.arguments
        data = self.files(arguments.limit)
        files_of = dict.fromkeys(arguments.systems, files)
        if FINETUNED in files_of and arguments.seeds:
            settings = self.settings(ELMO, data, files, seed=arguments.seeds[0], epochs=arguments.epochs)
            files_of[FINETUNED] = finetuned(files, settings, arguments.output / "finetuned")
        for seed in arguments.seeds:
            for system in arguments.systems:
                settings = self.settings(system, data, files_of[system], seed=seed, epochs=arguments.epochs)
                yield TrainingRun(system, seed, settings, arguments.output / system / f"seed-{seed}")

    def time(self, systems: Sequence[str], files: Files, results: Results) -> None:
        """Adds each system's time of an epoch in each round; the first epoch only warms up."""
        arguments = self.arguments
        import_module_and_submodules(self.peer_package)
        data = self.files(arguments.timed)
        folder = arguments.output / "timed" / f"{'_'.join(systems)}-{arguments.size}"
        prefix = f"{', '.join(systems)} in turn, {arguments.size}: "
        for number in range(arguments.rounds):
            runs = []
            for system in systems:
                settings = self.settings(
                    system,
                    data,
                    files,
                    seed=number,
                    epochs=arguments.timed_epochs,
                    activations=folder / "activations",
                    overrides=self.timed_overrides,
                )
                runs.append(TrainingRun(system, number, settings, folder / system / f"round-{number}"))
                check_same_config(runs[-1])
            done = all(run.metrics() for run in runs)
            for run in () if done else runs:
                shutil.rmtree(folder / "activations", ignore_errors=True)
                with _elmo_calls() as calls:
                    train_here(run)
                if calls:
                    others = calls[len(calls) // arguments.timed_epochs :] or calls
                    of_an_epoch = sum(others) / max(1, arguments.timed_epochs - 1)
                    results.add(run.variant, number, prefix + ELMO_PART, of_an_epoch)
                disk = sum(path.stat().st_size for path in folder.glob("activations/**/*") if path.is_file())
                if disk:
                    results.add(run.variant, number, ACTIVATIONS, disk / 1e6)
            for run in runs:
                self.record(results, run, prefix)
                times = ", ".join(f"{seconds:.2f} s" for seconds in epoch_times(run))
                print(f"round {number}  {run.variant}: epochs of {times}", flush=True)

    def record(self, results: Results, run: TrainingRun, prefix: str) -> None:
        """The times of a run that is done, and its memory where it had a process of its own."""
        first, *others = epoch_times(run)
        if others:
            results.add(run.variant, run.seed, prefix + FIRST_EPOCH, first)
        results.add(run.variant, run.seed, prefix + EPOCH, statistics.median(others or [first]))
        if not prefix:
            peak = max(epoch["peak_worker_0_memory_MB"] for epoch in run.epochs()) / 1024
            results.add(run.variant, run.seed, MEMORY, peak)

    def settings(
        self,
        system: str,
        data: tuple[Path, Path],
        files: Files,
        *,
        seed: int,
        epochs: int,
        activations: Path | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> Settings:
        """
        The config of a system.

        # Parameters

        activations : folder of the activations of our systems with ELMo; by default the folder of the runs.
        overrides : of the config, added to the ones on the command line.
        """
        changes = self._changes(data, seed=seed, epochs=epochs, overrides=overrides)
        if system == OURS:
            return read_config(self.config, changes)
        if system.startswith(ELMO):
            return self._ours_with_elmo(system, files, changes, activations)
        return self._peer_system(system, files, changes)

    def _changes(
        self, data: tuple[Path, Path], *, seed: int, epochs: int, overrides: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """All epochs are trained; callbacks are left out, since the peer has none."""
        vectors = self.arguments.vectors
        changes = with_vectors(vectors) | {f"{WORDS}.trainable": False} if vectors else {}
        changes |= self.arguments.overrides | dict(overrides or {})
        changes |= dict.fromkeys(("random_seed", "numpy_seed", "pytorch_seed"), seed)
        changes |= dict(zip(("train_data_path", "validation_data_path"), map(str, data), strict=True))
        return changes | {"trainer.patience": None, "trainer.callbacks": [], "trainer.num_epochs": epochs}

    def _ours_with_elmo(
        self, system: str, files: Files, changes: dict[str, Any], activations: Path | None
    ) -> Settings:
        settings = read_config(f"{self.config}_elmo", changes)
        elmo = settings["model"]["elmo"]
        elmo |= _elmo_block(files) | self.arguments.elmo
        elmo["placement"] = next(
            (part for part in system.split("-") if part in PLACEMENTS), elmo["placement"]
        )
        if COMPUTED not in system:
            elmo["activations"] = str(activations or self.arguments.output / "activations")
        return settings

    def _peer_system(self, system: str, files: Files, changes: dict[str, Any]) -> Settings:
        """The peer; with ELMo, it has the dropout of ours."""
        elmo_dim = 0 if system == PEER else BiLmOptions.read(files[0]).output_dim
        peer = self.peer(read_config(self.config, changes), elmo_dim)
        if system in (PEER_ELMO, PEER_OUR_ELMO):
            name, kind = ("elmo", "characters") if system == PEER_ELMO else (OUR_ELMO, "character_ids")
            for reader in {"dataset_reader", "validation_dataset_reader"} & peer.keys():
                peer[reader]["token_indexers"][name] = {"type": f"elmo_{kind}"}
            ours = read_config(f"{self.config}_elmo", changes)["model"]["elmo"]
            block = _elmo_block(files) | {"dropout": ours.get("dropout", 0.0)}
            if system == PEER_ELMO:
                self.plug_elmo(peer, block)
            else:
                peer["model"]["text_field_embedder"]["token_embedders"][name] = {"type": "elmo", **block}
        return with_overrides(peer, self.arguments.peer_overrides)

    def files(self, limits: Iterable[int]) -> tuple[Path, Path]:
        """Returns the paths of copies of `train*` and `dev*` of the data, cut to `limits` units."""
        folder = self.arguments.output / "data" / "-".join(map(str, limits))
        paths = []
        for part, limit in zip(("train", "dev"), limits, strict=True):
            sources = input_files(self.arguments.data / f"{part}*")
            path = folder / part / f"{part}{self.suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.some(sources, limit or None), encoding="utf-8")
            paths.append(path)
        return paths[0], paths[1]


def _elmo_block(files: Files) -> dict[str, Any]:
    return dict(zip(("options_file", "weight_file"), files, strict=True))


@contextmanager
def _elmo_calls() -> Iterator[list[float]]:
    """The seconds of each call of an ELMo, ours or AllenNLP's."""
    calls: list[float] = []

    def timed(forward: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            output = forward(*args, **options)
            calls.append(time.perf_counter() - start)
            return output

        return call

    with (
        patch.object(Elmo, "forward", timed(Elmo.forward)),
        patch.object(peer_elmo.Elmo, "forward", timed(peer_elmo.Elmo.forward)),
    ):
        yield calls


def train_here(run: TrainingRun) -> None:
    """Trains a run in this process, and keeps only its metrics."""
    train_model(Params(copy.deepcopy(run.config)), run.folder, force=True, file_friendly_logging=True)
    # With the model goes its open database of activations.
    gc.collect()
    for file in (*run.folder.glob("*.th"), run.folder / "model.tar.gz"):
        file.unlink()


def equally_spaced(items: list[Any], number: int | None) -> list[Any]:
    """Returns `number` of the items, evenly spaced: files are not shuffled."""
    number = min(number or len(items), len(items))
    return [items[i * len(items) // number] for i in range(number)]


MEMBER, ENSEMBLE = "member", "ensemble"


class EnsembleOfRuns:
    """
    An ensemble of the runs of a system from several seeds, compared with its members: the best score of each
    member on the validation data, and the score of `allennlp elmo ensemble` of all.

    RUNS is the folder of a system, such as OUT/elmo of `python -m benchmarks ner DATA OUT`.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("runs", type=Path, help="folder of the runs, seed-N")
        parser.add_argument("output", type=Path, help="folder of the archive and the results")

    @staticmethod
    def run(arguments: argparse.Namespace) -> None:
        folders = sorted(path for path in arguments.runs.glob("seed-*") if path.is_dir())
        members = [finished_run(folder)._replace(variant=MEMBER) for folder in folders]
        if len(members) < 2:
            raise ConfigurationError(
                f"{arguments.runs} has {len(members)} runs; an ensemble needs two or more"
            )
        results = Results(ENSEMBLE, arguments.output / "results.csv")
        arguments.output.mkdir(parents=True, exist_ok=True)
        metric = add_scores(results, members)
        archive = arguments.output / "model.tar.gz"
        archives = [member.folder / archive.name for member in members]
        Ensemble(archives=list(map(str, archives)), output=archive, force=True).run()
        config = members[0].config
        score = evaluate_from_archive(str(archive), config["validation_data_path"])[metric]
        results.add(ENSEMBLE, 0, metric, 100 * score)
        show(results.means(), results.gains(metric, MEMBER))
