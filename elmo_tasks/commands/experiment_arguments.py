"""What the verbs share that train variants of a config with ELMo."""

import argparse
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.base import Distinct, positive, seed
from elmo_tasks.evaluation.plot import bars
from elmo_tasks.evaluation.table import Cell, Table
from elmo_tasks.training.experiments import Run, score, summary, train, validation_metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="config of a task with ELMo")
    parser.add_argument("output", metavar="OUT", type=Path, help="folder of the runs and results")
    parser.add_argument(
        "-o", "--overrides", default="", help="JSON that overrides keys of CONFIG, as for allennlp train"
    )
    parser.add_argument(
        "--seeds",
        type=seed,
        nargs="+",
        action=Distinct,
        default=[13, 14, 15],
        help="random seeds; each setting is trained once with each",
    )
    parser.add_argument("--jobs", type=positive, default=1, help="runs at a time")


def read_elmo_config(arguments: argparse.Namespace) -> dict[str, Any]:
    """
    CONFIG with its overrides.

    # Raises
    `ConfigurationError`: its model has no ELMo or does not use it, or its trainer has no metric to choose the
    best epoch by.
    """
    config = Params.from_file(arguments.config, arguments.overrides).as_dict(quiet=True)
    model = config.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("elmo"), dict):
        raise ConfigurationError(f"{arguments.config}: found no model.elmo, expected a config with ELMo")
    if model["elmo"].get("placement") == "none":
        raise ConfigurationError(
            f"{arguments.config}: model.elmo.placement: found 'none', expected where ELMo is to be"
        )
    metric = config.get("trainer", {}).get("validation_metric")
    if not isinstance(metric, str) or not metric.startswith(("+", "-")):
        raise ConfigurationError(
            f"{arguments.config}: found the trainer.validation_metric {metric!r}, expected one metric, with "
            "+ or - before it"
        )
    return config


def train_and_tell(runs: list[Run], *, jobs: int, packages: list[str]) -> None:
    """
    Trains the runs that are not done. At first, and after each run, it shows the table of all, empty where a
    run is left, and the time that these will take, if each takes as long as those before.
    """
    before = done = sum(run.metrics() is not None for run in runs)
    start = time.monotonic()
    print(f"{len(runs)} runs, {done} of them done\n\n{summary(runs).markdown()}", flush=True)

    def tell(run: Run) -> None:
        nonlocal done
        done += 1
        seconds = (time.monotonic() - start) / (done - before) * (len(runs) - done)
        left = timedelta(seconds=round(seconds))
        name = validation_metric(run.config)
        print(f"{done} of {len(runs)}: {run}: {name} {score(run):.4f}, about {left} left\n")
        print(summary(runs).markdown(), flush=True)

    train(runs, jobs=jobs, packages=packages, report=tell)


def figure(runs: list[Run]) -> "Figure":
    """A group of bars a variant, a bar a seed."""
    metric = validation_metric(runs[0].config)
    rows: list[tuple[Cell, ...]] = [(run.variant, f"seed {run.seed}", score(run)) for run in runs]
    picture = bars(Table(("variant", "seed", metric), rows), groups="variant", bars="seed", heights=metric)
    picture.axes[0].tick_params(axis="x", labelrotation=90)
    return picture
