"""Systems trained in turn on one machine: their dev scores over several seeds, the times of their epochs."""

import argparse
import json
import logging
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.training import TrainerCallback

from elmo_tasks.paths import bundled

Settings = dict[str, Any]
"""A config, with the callback `epoch_times`."""
Systems = Callable[[int], dict[str, Settings]]
"""The settings of each system by its name, for a seed."""


@TrainerCallback.register("epoch_times")
class EpochTimes(TrainerCallback):
    """Seconds of each epoch, training and validation together."""

    times: list[float] = []  # noqa: RUF012 (one run at a time)

    def on_start(self, *args: Any, **kwargs: Any) -> None:
        EpochTimes.times.clear()
        self._last = time.perf_counter()

    def on_epoch(self, *args: Any, **kwargs: Any) -> None:
        now = time.perf_counter()
        EpochTimes.times.append(now - self._last)
        self._last = now

    @classmethod
    def median(cls) -> float:
        """Of all epochs but the first, which also warms up."""
        return statistics.median(cls.times[1:] or cls.times)


class Result(NamedTuple):
    """Dev score of the best epoch in percent, seconds of an epoch, peak memory in GiB."""

    score: float
    seconds: float
    memory: float


def quiet() -> None:
    """Else the results drown in the log."""
    os.environ.setdefault("ALLENNLP_LOG_LEVEL", "WARNING")
    logging.disable(logging.INFO)


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """Of a benchmark that reads a folder, and configs of ours that may be changed."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--overrides",
        type=json.loads,
        default={},
        metavar="JSON",
        help="""as those of `allennlp train`, for every config of ours: '{"trainer.optimizer.lr": 0.001}'""",
    )
    return parser


def add_runs(parser: argparse.ArgumentParser, *, epochs: int, timed: tuple[int, int], what: str) -> None:
    """The arguments of a benchmark that first scores and then times: `timed` counts `what` of both files."""
    parser.add_argument("--seeds", type=int, nargs="*", default=[13, 14, 15])
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--rounds", type=int, default=3, help="short runs for the time of an epoch")
    parser.add_argument("--timed", type=int, nargs=2, default=timed, help=f"{what} of their two files")


def parts(data: Path) -> tuple[Path, Path]:
    """The files `train.*` and `dev.*` of a folder."""
    return next(data.glob("train.*")), next(data.glob("dev.*"))


def read_config(
    name: str,
    train: Path,
    dev: Path,
    *,
    seed: int,
    epochs: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    callbacks: bool = False,
) -> Settings:
    """
    A config of ours for these files. All epochs are trained, its own number by default, and the best one is
    scored; what the overrides say of seeds, files, epochs and patience is not heard. Its own `callbacks` are
    left out if not said, since a peer has none.
    """
    path = str(bundled(f"training_configs/{name}.jsonnet"))
    settings = Params.from_file(path, json.dumps(overrides or {})).as_dict(quiet=True)
    settings |= dict.fromkeys(("random_seed", "numpy_seed", "pytorch_seed"), seed)
    settings |= {"train_data_path": str(train), "validation_data_path": str(dev)}
    own = settings["trainer"]["callbacks"] if callbacks else []
    settings["trainer"] |= {"patience": None, "callbacks": [*own, {"type": "epoch_times"}]}
    if epochs is not None:
        settings["trainer"]["num_epochs"] = epochs
    return settings


def add_elmo_indexers(ours: Settings, peer: Settings) -> None:
    """Characters for ELMo in both readers of both systems."""
    for settings, indexer in ((ours, "elmo_character_ids"), (peer, "elmo_characters")):
        for reader in ("dataset_reader", "validation_dataset_reader"):
            settings[reader]["token_indexers"]["elmo"] = {"type": indexer}


def run(settings: Settings) -> tuple[float, float]:
    """Dev score of the best epoch in percent, and the seconds of an epoch."""
    metric = settings["trainer"]["validation_metric"].removeprefix("+")
    with tempfile.TemporaryDirectory() as folder:
        train_model(Params(settings), folder, force=True, file_friendly_logging=True)
        metrics = json.loads((Path(folder) / "metrics.json").read_text())
    return 100 * metrics[f"best_validation_{metric}"], EpochTimes.median()


def peak_memory() -> float:
    """Of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def mean_scores(systems: Systems, seeds: Iterable[int]) -> dict[str, float]:
    """Trains and prints; the means, in percent."""
    scores: dict[str, list[float]] = {}
    for seed in seeds:
        for name, settings in systems(seed).items():
            score, seconds = run(settings)
            scores.setdefault(name, []).append(score)
            print(f"seed {seed}  {name:<32} {score:5.2f}  {seconds:6.2f} s an epoch", flush=True)
    return print_means(scores)


def epoch_times(systems: Systems, rounds: int) -> None:
    """
    Prints the time of an epoch of the first of two systems as a part of that of the second: the speed of a
    shared machine drifts, so short runs are made in turn, and compared pair by pair.
    """
    pairs: list[tuple[float, ...]] = []
    for seed in range(rounds):
        times = {name: run(settings)[1] for name, settings in systems(seed).items()}
        pairs.append(tuple(times.values()))
        print(
            f"round {seed}  " + ", ".join(f"{name} {time:.2f} s" for name, time in times.items()), flush=True
        )
    if pairs:
        ours, theirs = zip(*pairs, strict=True)
        print_ratios(f"time of an epoch, {' / '.join(times)}", ours, theirs)


def results_in_processes(
    systems: Systems, seeds: Iterable[int], run: Callable[[Settings], Result]
) -> dict[str, list[Result]]:
    """Trains and prints, each run in a process of its own; the results of each system, seed by seed."""
    results: dict[str, list[Result]] = {}
    for seed in seeds:
        for name, settings in systems(seed).items():
            with multiprocessing.get_context("spawn").Pool(1) as process:
                result = process.apply(run, (settings,))
            results.setdefault(name, []).append(result)
            print(
                "seed {}  {:<12} {:5.2f}  {:7.1f} s an epoch  {:5.2f} GiB".format(seed, name, *result),
                flush=True,
            )
    return results


def print_results(
    results: dict[str, list[Result]], *, beside: Iterable[tuple[str, str]], gains: Iterable[tuple[str, str]]
) -> None:
    """
    The means; time and memory of the first of each pair of `beside` as a part of those of the second; what
    the second of each pair of `gains` takes of the error of the first. Pairs that were not run are left out.
    """
    means = print_means({name: [result.score for result in found] for name, found in results.items()})
    for ours, theirs in beside:
        if ours in results and theirs in results:
            for what, place in (("time of an epoch", 1), ("peak memory", 2)):
                values = ([result[place] for result in results[name]] for name in (ours, theirs))
                print_ratios(f"{what}, {ours} / {theirs}", *values)
    for pair in gains:
        print_gain(means, *pair)


def print_means(scores: dict[str, list[float]]) -> dict[str, float]:
    """With their standard deviations."""
    means = {name: statistics.mean(values) for name, values in scores.items()}
    for name, values in scores.items():
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        print(f"{name:<32} {means[name]:.2f} (standard deviation {spread:.2f}, {len(values)} seeds)")
    return means


def print_ratios(what: str, ours: Sequence[float], theirs: Sequence[float]) -> None:
    """Of each pair, their middle and range."""
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    print(f"{what}: median {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def print_gain(means: dict[str, float], without: str, with_elmo: str) -> None:
    """What share of the error of the one system the other takes, where both were scored; means in percent."""
    if without in means and with_elmo in means:
        gain = (means[with_elmo] - means[without]) / (100 - means[without])
        print(f"relative error reduction, {without} to {with_elmo}: {gain:.1%}")
