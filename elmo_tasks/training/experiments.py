"""
Variants of a config, each trained from several seeds, for comparisons and ablations.

Each run is what `allennlp train` makes, in a folder and a process of its own. A run is done when it has its
metrics; an interrupted run is resumed. `Setting` holds the variations of ELMo in Peters et al. 2018 (Tables 2
and 3), and of the amount of training data (Figure 1).
"""

import itertools
import json
import math
import multiprocessing
import os
import signal
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.params import with_overrides
from allennlp.common.plugins import import_plugins
from allennlp.common.util import import_module_and_submodules
from allennlp.data import DatasetReader
from allennlp.models.archival import CONFIG_NAME
from filelock import lock_descriptor

from elmo_tasks.common.errors import errors_as
from elmo_tasks.common.machine import end_with_parent
from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.common.table import Table

METRICS, BEST = "metrics.json", "best.th"
SPREAD = ("standard deviation", "runs")

# With `forkserver`, which Windows lacks, processes start fast: they are forked from one that has imported
# everything.
_PROCESSES: Any = multiprocessing.get_context(
    "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
)


class TrainingRun(NamedTuple):
    """One training of a variant in `folder`; its log is `FOLDER.log`."""

    variant: str
    seed: int
    config: dict[str, Any]
    folder: Path
    tracking_uri: str | None = None
    """MLflow's store of the run. It is not part of the config: a resumed run may have another one."""

    def __str__(self) -> str:
        return f"{self.variant}, seed {self.seed}"

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    def metrics(self) -> dict[str, Any] | None:
        """Returns the metrics if the run is done: then `train` has removed the best weights."""
        return None if (self.folder / BEST).exists() else _read_metrics(self.folder / METRICS)

    def epochs(self) -> Iterator[dict[str, Any]]:
        for epoch in itertools.count():
            if (metrics := _read_metrics(self.folder / f"metrics_epoch_{epoch}.json")) is None:
                return
            yield metrics

    def scores(self, metric: str) -> list[float]:
        return [metrics[f"validation_{metric}"] for metrics in self.epochs()]


def plan(
    config: dict[str, Any], variants: Mapping[str, Mapping[str, Any]], *, seeds: Iterable[int], folder: Path
) -> list[TrainingRun]:
    """
    Returns the runs of all variants and seeds, grouped by seed, in folders such as `variant/seed-13`.
    `variants` are overrides by name, as for `--overrides`; one of an unknown key is a `ConfigurationError`.
    """
    runs = []
    for seed in seeds:
        for name, overrides in variants.items():
            seeds_of_run = dict.fromkeys(("random_seed", "numpy_seed", "pytorch_seed"), seed)
            with errors_as(ConfigError, "the config cannot be overridden", ValueError, where=name):
                own = with_overrides(config, {**overrides, **seeds_of_run})
            runs.append(TrainingRun(name, seed, own, folder / name / f"seed-{seed}"))
    return runs


def train(
    runs: list[TrainingRun], *, jobs: int, packages: Sequence[str], report: Callable[[TrainingRun], None]
) -> None:
    """
    Trains the runs that are not done, `jobs` at a time, with the `packages` of `--include-package`. When a
    run is done, its checkpoints are removed, its archive stays, and `report` is called with it. If one fails,
    which is a `ConfigurationError` with the path of its log, the others are stopped; the next call resumes
    them. For the config see `check_same_config`.
    """
    for run in runs:
        check_same_config(run)
    waiting = [run for run in runs if run.metrics() is None]
    for run in runs:
        if run not in waiting:
            _remove_checkpoints(run)
    running: dict[int, tuple[TrainingRun, BaseProcess]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                process = _start(waiting[0], jobs, packages)
                running[process.sentinel] = waiting.pop(0), process
            for sentinel in map(int, wait(list(running))):  # type: ignore[arg-type]
                run, process = running.pop(sentinel)
                process.join()
                if process.exitcode:
                    raise ConfigurationError(f"{run}: {_failure(run, process.exitcode)}")
                _remove_checkpoints(run)
                report(run)
    finally:
        for _, process in running.values():
            process.terminate()
        for _, process in running.values():
            process.join()


def check_same_config(run: TrainingRun) -> None:
    before = _read_metrics(run.folder / CONFIG_NAME)
    if before is None:
        return
    old, new = (Params(config).as_flat_dict() for config in (before, run.config))
    for key in sorted(old | new):
        if old.get(key) != new.get(key):
            raise ConfigurationError(
                f"{run.folder} has a run in which {key} is {old.get(key)}, not {new.get(key)}; use another "
                "folder, or remove this one"
            )


def _start(run: TrainingRun, jobs: int, packages: Sequence[str]) -> BaseProcess:
    # A run that was killed before it wrote its config cannot be resumed. Foreign files are left alone, and
    # AllenNLP refuses their folder.
    recover = _read_metrics(run.folder / CONFIG_NAME) is not None
    if not recover:
        for name in (CONFIG_NAME, "out.log"):
            (run.folder / name).unlink(missing_ok=True)
    run.folder.parent.mkdir(parents=True, exist_ok=True)
    threads = max(1, torch.get_num_threads() // jobs)
    _PROCESSES.set_forkserver_preload([__name__])
    process = _PROCESSES.Process(target=_train_in_process, args=(run, recover, threads, packages))
    process.start()
    return process


def _train_in_process(run: TrainingRun, recover: bool, threads: int, packages: Sequence[str]) -> None:
    log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    if not lock_descriptor(log, blocking=False):
        sys.exit(f"{run.folder} is in use by another process")
    # The lock on the folder ends with this process, and this process with its parent.
    end_with_parent()
    torch.set_num_threads(threads)
    if run.tracking_uri is not None:
        os.environ["MLFLOW_TRACKING_URI"] = run.tracking_uri
    import_plugins()
    for package in packages:
        import_module_and_submodules(package)
    train_model(Params(run.config), run.folder, recover=recover, file_friendly_logging=True)


def _remove_checkpoints(run: TrainingRun) -> None:
    """Removes the best weights first: without them the run counts as done."""
    for checkpoint in (run.folder / BEST, *run.folder.glob("*.th")):
        checkpoint.unlink(missing_ok=True)


def _read_metrics(path: Path) -> dict[str, Any] | None:
    """Returns the content of a file, `None` if it is missing or was cut off by a kill."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def _failure(run: TrainingRun, exit_code: int) -> str:
    if exit_code < 0:
        ended_by = signal.Signals(-exit_code).name
        return f"was ended by {ended_by}, as happens if memory runs out; the same command resumes it"
    lines = run.log.read_text(encoding="utf-8", errors="replace").split("\n") if run.log.exists() else []
    return f"failed, {run.log} says why: {next(filter(None, reversed(lines)), 'it is empty')}"


def summary(runs: list[TrainingRun]) -> Table:
    """Returns a row a variant: mean and deviation of its best validation scores, and each seed's score."""
    metric = validation_metric(runs[0].config)
    seeds = list(dict.fromkeys(run.seed for run in runs))
    scores = {(run.variant, run.seed): score(run) for run in runs}
    table = Table(("variant", metric, *SPREAD, *(f"seed {seed}" for seed in seeds)))
    for variant in dict.fromkeys(run.variant for run in runs):
        scores_by_seed = [scores.get((variant, seed)) for seed in seeds]
        table.add(variant, *mean_and_deviation(scores_by_seed), *scores_by_seed)
    return table


def mean_and_deviation(scores: Iterable[float | None]) -> tuple[float | None, float | None, int]:
    """Returns the mean of the scores that exist, their standard deviation, and their number."""
    done = [value for value in scores if value is not None]
    mean = statistics.mean(done) if done else None
    return mean, statistics.stdev(done) if len(done) > 1 else None, len(done)


def variants_at_chance(runs: list[TrainingRun]) -> list[str]:
    """Finds an F1 of 0, or an accuracy within two standard errors of the most frequent label's."""
    config, bound, labels = runs[0].config, 0.0, Counter[str]()
    metric = config["trainer"]["validation_metric"]
    if metric == "+accuracy":
        block = config.get("validation_dataset_reader") or config["dataset_reader"]
        reader = DatasetReader.from_params(Params(block).duplicate())
        instances = reader.read(config["validation_data_path"])
        labels.update(instance["label"].label for instance in instances if "label" in instance.fields)
    if labels:
        share = max(labels.values()) / labels.total()
        bound = share + 2 * math.sqrt(share * (1 - share) / labels.total())
    low = [run.variant for run in runs if metric.startswith("+") and (score(run) or 0) <= bound]
    return list(dict.fromkeys(low))


def validation_metric(config: dict[str, Any]) -> str:
    return config["trainer"]["validation_metric"].lstrip("+-")


def score(run: TrainingRun) -> float | None:
    """Returns the best epoch's score on the validation data, by the run's own metric, if the run is done."""
    metrics = run.metrics()
    return None if metrics is None else metrics[f"best_validation_{validation_metric(run.config)}"]


class Setting(NamedTuple):
    """Three keys of the `elmo` block, and the fraction of the training data to use."""

    placement: str
    layers: str
    mix_l2: float | None
    fraction: float = 1.0

    def __str__(self) -> str:
        """Returns the name of the variant, which is also the name of its folder."""
        parts = [self.placement]
        if self.placement != "none":
            parts.append(self.layers)
            if self.mix_l2 is not None:
                parts.append(f"lambda-{self.mix_l2:g}")
        if self.fraction < 1:
            parts.append(f"fraction-{self.fraction:g}")
        return "-".join(parts)

    def overrides(self, config: dict[str, Any], seed: int) -> dict[str, Any]:
        """The run's seed draws the sample: models with and without ELMo train on the same data."""
        changes = {f"model.elmo.{key}": getattr(self, key) for key in ("placement", "layers", "mix_l2")}
        if self.layers == "top":
            changes["model.elmo.weights"] = "trainable"
        if self.fraction == 1:
            return changes
        reader = config["dataset_reader"]
        sample = {"type": "elmo_sample", "reader": reader, "fraction": self.fraction, "seed": seed}
        validation_reader = config.get("validation_dataset_reader", reader)
        return changes | {"dataset_reader": sample, "validation_dataset_reader": validation_reader}


NO_ELMO = Setting("none", "all", None)


def own_setting(config: dict[str, Any]) -> Setting:
    block = config["model"]["elmo"]
    return Setting(block.get("placement", "input"), block.get("layers", "all"), block.get("mix_l2"))


def layer_rows(own: Setting) -> dict[str, Setting]:
    """Returns the rows of the paper's Table 2."""
    return {
        "no ELMo": NO_ELMO,
        "top layer": own._replace(layers="top", mix_l2=None),
        "all layers, lambda 1": own._replace(layers="all", mix_l2=1.0),
        "all layers, lambda 0.001": own._replace(layers="all", mix_l2=0.001),
    }


def placement_rows(own: Setting) -> dict[str, Setting]:
    """Returns the rows of the paper's Table 3."""
    placements = ("input", "input+output", "output")
    return {"no ELMo": NO_ELMO} | {placement: own._replace(placement=placement) for placement in placements}
