"""What trainings that are done have left: times, metrics, scores and curves."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import CONFIG_NAME

from benchmarks.results import Results
from elmo_tasks.common.files import atomic_file
from elmo_tasks.evaluation.table import Table
from elmo_tasks.training.experiments import Run, score, validation_metric

CURVE_COLUMNS = ("system", "seed", "epoch", "score")


def finished_run(folder: Path) -> Run:
    """
    The run in a folder `VARIANT/seed-N`.

    # Raises
    `ConfigurationError`: no run, or one that is not done.
    """
    seed, config = folder.name.removeprefix("seed-"), folder / CONFIG_NAME
    if seed.isdecimal() and config.exists():
        run = Run(folder.parent.name, int(seed), json.loads(config.read_text()), folder)
        if run.metrics() is not None:
            return run
    raise ConfigurationError(f"{folder}: found no run that is done, expected the folder seed-N of one")


def epoch_times(run: Run) -> list[float]:
    """
    Seconds of each epoch, training and validation together. The clock starts anew when a killed run goes on:
    an epoch whose clock shows no more than that of the one before is left out.
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


def best_metrics(run: Run) -> dict[str, Any]:
    """The metrics on the validation data in the best epoch of a run that is done."""
    start = "best_validation_"
    metrics = run.metrics() or {}
    return {name.removeprefix(start): value for name, value in metrics.items() if name.startswith(start)}


def add_scores(results: Results, runs: list[Run], task: str = "") -> str:
    """The scores of runs that are done, in percent; what their metric is called, with the task before it."""
    metric = task + validation_metric(runs[0].config)
    for run in runs:
        results.add(run.variant, run.seed, metric, 100 * (score(run) or 0.0), sum(epoch_times(run)))
    return metric


def write_curve(runs: Iterable[Run], path: Path) -> None:
    """
    The score of each epoch on the validation data, in percent, by the run's own metric; a run that the file
    has already stays as it is.
    """
    table = Table.read(path) if path.exists() else Table(CURVE_COLUMNS)
    in_file = set(zip(table.column("system"), table.column("seed"), strict=True))
    for run in runs:
        if (run.variant, run.seed) not in in_file:
            for epoch, value in enumerate(run.scores(validation_metric(run.config)), start=1):
                table.add(run.variant, run.seed, epoch, round(100 * value, 4))
    with atomic_file(path) as file:
        file.write(table.csv().encode())
