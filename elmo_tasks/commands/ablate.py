"""`allennlp elmo ablate`: Tables 2 and 3 and Figure 1 of Peters et al. 2018, for one config."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from allennlp.common import Params
from allennlp.data import DatasetReader

from elmo_tasks.commands.base import number, option
from elmo_tasks.commands.experiments import RunVerb, score_bars, train_and_report
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

TABLES = ("layers", "placement", "samples")


fraction = number(float, "a number above 0, up to 1", lambda value: 0 < value <= 1)
Fraction = Annotated[float, fraction]


@dataclass(frozen=True, kw_only=True)
class Ablate(RunVerb):
    """The verb `ablate`; see `sample_table`, and `training.experiments`, which trains the runs."""

    name = "ablate"
    help = "Layers, placement and data, as in the paper's tables."
    description = """Trains a config with ELMo once for each seed and setting: the top layer, and all layers
        with lambda 1 and .001 (layers); ELMo at the input, at the output, and at both (placement); and parts
        of the training data, with ELMo and without (samples). What is not varied is as in CONFIG; the
        baseline is CONFIG without ELMo. A setting of several tables is trained once. Each run has a folder
        of its own in OUT. After a kill, the same command continues. A .csv, .md, .png and .svg for each table
        show the best scores on the validation data."""

    tables: list[str] = option(", ".join(TABLES), TABLES, nargs="+", choices=TABLES, metavar="TABLE")
    fractions: list[Fraction] = option(
        "parts of the training data to train on, drawn at random; 1 is all of it", [0.01, 0.1, 1.0], nargs="+"
    )

    def run(self) -> None:
        output = self.output
        config = self.elmo_config()
        own = own_setting(config)
        tables = {"layers": layer_rows(own), "placement": placement_rows(own)}
        tables = {name: rows for name, rows in tables.items() if name in self.tables}
        samples: dict[float, int] = {}
        if "samples" in self.tables:
            total = _count_instances(config)
            samples = {part: sample_size(part, total) for part in sorted(set(self.fractions))}
        settings = [setting for rows in tables.values() for setting in rows.values()]
        settings += [kind._replace(fraction=part) for part in samples for kind in (own, NO_ELMO)]
        with staging_folder(output / "tables") as folder:
            runs = [
                run
                for seed in self.seeds
                for run in plan(
                    config,
                    {str(setting): setting.overrides(config, seed) for setting in settings},
                    seeds=[seed],
                    folder=output,
                )
            ]
            train_and_report(runs, jobs=self.jobs, packages=self.include_package)
            for name, rows in tables.items():
                shown = [
                    run._replace(variant=row)
                    for row, setting in rows.items()
                    for run in _runs_of(setting, runs)
                ]
                print()
                ResultsWriter(folder, output / f"{name}.csv").write(summary(shown), score_bars(shown))
            if samples:
                table = sample_table(runs, own, samples)
                print()
                metric, deviation = table.columns[3:5]
                figure = curves(table, lines="ELMo", x="fraction", heights=metric, errors=deviation)
                ResultsWriter(folder, output / "samples.csv").write(table, figure)


def sample_table(runs: list[Run], own: Setting, samples: dict[float, int]) -> Table:
    """
    Returns the paper's Figure 1: for each fraction, without ELMo and with it, the `spread` of the best scores
    on the validation data, and the mean number of epochs up to them. Then comes the mean number of epochs
    with which ELMo reaches the best score without it, from the same seed, empty if a seed never reaches it;
    and the score of each seed.

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
        for name, variant, catches_up in (("without", without, None), ("with", with_elmo, to_baseline)):
            scores = [score(run) for run in variant]
            epochs = _mean(map(_epochs_to_best, variant, variant))
            table.add(fraction, size, name, *spread(scores), epochs, catches_up, *scores)
    return table


def _runs_of(setting: Setting, runs: list[Run]) -> list[Run]:
    """Returns the runs of a setting, one for each seed."""
    return [run for run in runs if run.variant == str(setting)]


def _epochs_to_best(run: Run, other: Run) -> int | None:
    """Returns the number of epochs after which a run is as good as the best epoch of `other`."""
    metric = validation_metric(run.config)
    sign = -1 if run.config["trainer"]["validation_metric"].startswith("-") else 1
    wanted = score(other)
    assert wanted is not None
    reached = (
        epochs for epochs, value in enumerate(run.scores(metric), start=1) if sign * value >= sign * wanted
    )
    return next(reached, None)


def _mean(numbers: Iterable[int | None]) -> float | None:
    """Returns the mean, or `None` if one of the numbers is `None`."""
    values = list(numbers)
    present = [value for value in values if value is not None]
    return statistics.mean(present) if len(present) == len(values) else None


def _count_instances(config: dict[str, Any]) -> int:
    """Returns the number of instances of the training data."""
    reader = DatasetReader.from_params(Params(config["dataset_reader"]).duplicate())
    return sum(1 for _ in reader.read(config["train_data_path"]))
