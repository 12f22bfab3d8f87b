"""`allennlp elmo ablate`: Tables 2 and 3 and Figure 1 of Peters et al. 2018, for one config."""

import argparse
import math
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allennlp.common import Params
from allennlp.data import DatasetReader

from elmo_tasks.commands.arguments import (
    add_run_arguments,
    figure,
    read_elmo_config,
    train_and_report,
)
from elmo_tasks.commands.base import Verb
from elmo_tasks.commands.results import ResultsWriter
from elmo_tasks.commands.staging import staging_folder
from elmo_tasks.common.plot import curves
from elmo_tasks.common.table import Table
from elmo_tasks.training.experiments import (
    NO_ELMO,
    SPREAD,
    Run,
    Setting,
    layer_rows,
    own_setting,
    placement_rows,
    plan,
    score,
    spread,
    summary,
    validation_metric,
)
from elmo_tasks.training.sample_reader import sample_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLES = ("layers", "placement", "samples")


class Ablate(Verb):
    """See `training.ablation` and `sample_table`; `training.experiments` trains the runs."""

    name = "ablate"
    help = "Layers, placement and data, as in the paper's tables."
    description = """Trains a config with ELMo once for each seed and setting: the top layer, and all layers
        with lambda 1 and .001 (layers); ELMo at the input, at the output, and at both (placement); and parts
        of the training data, with ELMo and without (samples). What is not varied is as in CONFIG; the
        baseline is CONFIG without ELMo. A setting of several tables is trained once. Each run is in a folder
        of its own below OUT. The same command goes on after a kill. A .csv, .md, .png and .svg for each table
        show the best scores on the validation data."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_run_arguments(parser)
        parser.add_argument(
            "--tables", nargs="+", choices=TABLES, default=TABLES, metavar="TABLE", help=", ".join(TABLES)
        )
        parser.add_argument(
            "--fractions",
            nargs="+",
            type=_fraction,
            default=[0.01, 0.1, 1.0],
            help="parts of the training data to train on, drawn at random; 1 is all of it",
        )

    def run(self, arguments: argparse.Namespace) -> None:
        output: Path = arguments.output
        config = read_elmo_config(arguments)
        own = own_setting(config)
        tables = {"layers": layer_rows(own), "placement": placement_rows(own)}
        tables = {name: rows for name, rows in tables.items() if name in arguments.tables}
        samples: dict[float, int] = {}
        if "samples" in arguments.tables:
            total = _count_instances(config)
            samples = {part: sample_size(part, total) for part in sorted(set(arguments.fractions))}
        settings = [setting for rows in tables.values() for setting in rows.values()]
        settings += [kind._replace(fraction=part) for part in samples for kind in (own, NO_ELMO)]
        with staging_folder(output / "tables") as folder:
            runs = [
                run
                for seed in arguments.seeds
                for run in plan(
                    config,
                    {str(setting): setting.overrides(config, seed) for setting in settings},
                    seeds=[seed],
                    folder=output,
                )
            ]
            train_and_report(runs, jobs=arguments.jobs, packages=arguments.include_package)
            for name, rows in tables.items():
                shown = [
                    run._replace(variant=row)
                    for row, setting in rows.items()
                    for run in _runs_of(setting, runs)
                ]
                print()
                ResultsWriter(folder, output / f"{name}.csv").write(summary(shown), figure(shown))
            if samples:
                table = sample_table(runs, own, samples)
                print()
                ResultsWriter(folder, output / "samples.csv").write(table, _sample_figure(table))


def sample_table(runs: list[Run], own: Setting, samples: dict[float, int]) -> Table:
    """
    The paper's Figure 1: for each fraction, without ELMo and with it, the `spread` of the best scores on the
    validation data, and the mean number of epochs up to them. Then comes the mean number of epochs with which
    ELMo comes up to the best score without it, of the same seed; empty if a seed never does; and the score of
    each seed.

    # Parameters

    own : the setting with ELMo.
    samples : the number of training instances of each fraction.
    """
    metric = validation_metric(runs[0].config)
    columns = ("fraction", "training instances", "ELMo", metric, *SPREAD)
    seeds = (f"seed {seed}" for seed in dict.fromkeys(run.seed for run in runs))
    table = Table((*columns, "epochs to best", "epochs to best without ELMo", *seeds))
    for fraction, size in samples.items():
        without, with_elmo = (_runs_of(kind._replace(fraction=fraction), runs) for kind in (NO_ELMO, own))
        to_baseline = _mean(map(_epochs_to_best, with_elmo, without))
        for name, of_kind, catches_up in (("without", without, None), ("with", with_elmo, to_baseline)):
            scores = [score(run) for run in of_kind]
            epochs = _mean(map(_epochs_to_best, of_kind, of_kind))
            table.add(fraction, size, name, *spread(scores), epochs, catches_up, *scores)
    return table


def _runs_of(setting: Setting, runs: list[Run]) -> list[Run]:
    """The runs of a setting, one for each seed."""
    return [run for run in runs if run.variant == str(setting)]


def _epochs_to_best(run: Run, other: Run) -> int | None:
    """After how many epochs a run is as good as the best of another one, or of itself."""
    metric = validation_metric(run.config)
    sign = -1 if run.config["trainer"]["validation_metric"].startswith("-") else 1
    wanted = score(other)
    assert wanted is not None
    reached = (
        epochs for epochs, value in enumerate(run.scores(metric), start=1) if sign * value >= sign * wanted
    )
    return next(reached, None)


def _mean(numbers: Iterable[int | None]) -> float | None:
    """The mean, or `None` if one of the numbers is `None`."""
    listed = list(numbers)
    known = [number for number in listed if number is not None]
    return statistics.mean(known) if len(known) == len(listed) else None


def _sample_figure(table: Table) -> "Figure":
    metric, deviation = table.columns[3:5]
    return curves(table, lines="ELMo", x="fraction", heights=metric, errors=deviation)


def _count_instances(config: dict[str, Any]) -> int:
    """The number of instances of the training data."""
    reader = DatasetReader.from_params(Params(config["dataset_reader"]).duplicate())
    return sum(1 for _ in reader.read(config["train_data_path"]))


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number above 0, up to 1")
    return value
