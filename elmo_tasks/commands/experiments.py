"""The common part of `compare` and `ablate`, which train variants of a config and show their scores."""

import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.base import Distinct, Positive, Seed, Verb, option, positional
from elmo_tasks.common.plot import bars
from elmo_tasks.common.table import Cell, Table
from elmo_tasks.training.experiments import Run, score, summary, train, validation_metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class RunVerb(Verb):
    """A verb that trains variants of a config."""

    config: str = positional("CONFIG", "config of a task with ELMo")
    output: Path = positional("OUT", "folder of the runs and results")
    overrides: str = option("JSON that overrides keys of CONFIG, as for allennlp train", "", short="-o")
    seeds: list[Seed] = option(
        "random seeds; each setting is trained once with each", [13, 14, 15], nargs="+", action=Distinct
    )
    jobs: Positive = option("runs at a time", 1)
    include_package: list[str]
    """AllenNLP adds it to every command."""

    def elmo_config(self) -> dict[str, Any]:
        """
        Reads CONFIG with its overrides.

        # Raises
        `ConfigurationError`: its model has no ELMo or does not use it, or its trainer has no metric to choose
        the best epoch by.
        """
        config = Params.from_file(self.config, self.overrides).as_dict(quiet=True)
        model = config.get("model")
        if not isinstance(model, dict) or not isinstance(model.get("elmo"), dict):
            raise ConfigurationError(f"{self.config}: found no model.elmo, expected a config with ELMo")
        if model["elmo"].get("placement") == "none":
            raise ConfigurationError(
                f"{self.config}: model.elmo.placement: found 'none', expected another placement of ELMo"
            )
        metric = config.get("trainer", {}).get("validation_metric")
        if not isinstance(metric, str) or not metric.startswith(("+", "-")):
            raise ConfigurationError(
                f"{self.config}: found the trainer.validation_metric {metric!r}, expected one metric, with + "
                "or - before it"
            )
        return config


def train_and_report(runs: list[Run], *, jobs: int, packages: list[str]) -> None:
    """
    Trains the runs that are not done. First, and after each run, it shows the table of all, empty where a run
    is left, and the time that the runs left will take if each takes as long as the runs before.
    """
    before = done = sum(run.metrics() is not None for run in runs)
    start = time.monotonic()
    print(f"{len(runs)} runs, {done} of them done\n\n{summary(runs).markdown()}", flush=True)

    def report_run(run: Run) -> None:
        nonlocal done
        done += 1
        seconds = (time.monotonic() - start) / (done - before) * (len(runs) - done)
        left = timedelta(seconds=round(seconds))
        name = validation_metric(run.config)
        print(f"{done} of {len(runs)}: {run}: {name} {score(run):.4f}, about {left} left\n")
        print(summary(runs).markdown(), flush=True)

    train(runs, jobs=jobs, packages=packages, report=report_run)


def score_bars(runs: list[Run]) -> "Figure":
    """Draws a group of bars for each variant, and in it a bar for each seed."""
    metric = validation_metric(runs[0].config)
    rows: list[tuple[Cell, ...]] = [(run.variant, f"seed {run.seed}", score(run)) for run in runs]
    figure = bars(Table(("variant", "seed", metric), rows), groups="variant", bars="seed", heights=metric)
    figure.axes[0].tick_params(axis="x", labelrotation=90)
    return figure
