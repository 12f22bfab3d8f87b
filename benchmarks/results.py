"""Measurements as rows of one CSV format, their means, ratios and p values, and the tables made of them."""

import argparse
import math
import platform
import re
import statistics
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from scipy.stats import ttest_1samp, ttest_ind_from_stats

from elmo_tasks import __version__
from elmo_tasks.common.files import atomic_file
from elmo_tasks.common.machine import cpu_count
from elmo_tasks.common.table import Table
from elmo_tasks.data.input_files import InputError
from elmo_tasks.training.experiments import mean_and_deviation

COLUMNS = ("task", "system", "seed", "metric", "value", "seconds", "versions")
"""`seed`: or the round, where measurements alternate. `seconds`: what the measurement took."""
OURS, PEER = "ours", "peer"


def add_results_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--csv", type=Path, help="file to write the results to (default: only show them)")


class Results:
    """
    The rows of a task.

    # Parameters

    task : the task of the rows; a file may hold the rows of several tasks.
    path : the CSV file, or `None` for none. Each row is written immediately.
    keep : keep the rows of the task that the file already has.
    """

    def __init__(self, task: str, path: Path | None, *, keep: bool = False) -> None:
        self.task = task
        self._path = path
        self._table = Table.read(path) if path is not None and path.exists() else Table(COLUMNS)
        if not keep:
            self._table = Table(COLUMNS, [row for row in self._table.rows if row[0] != task])
        self._targets: dict[str, tuple[float, bool]] = {}

    def add(self, system: str, seed: int, metric: str, value: float, seconds: float | None = None) -> None:
        """A row more, unless the value is known."""
        if seed in self.values(system, metric):
            return
        self._table.add(self.task, system, seed, metric, value, seconds, versions())
        if self._path is not None:
            with atomic_file(self._path) as file:
                file.write(self._table.csv().encode())

    def add_in_turn(
        self,
        metric: str,
        ours: Sequence[float],
        theirs: Sequence[float],
        *,
        seconds: Sequence[float | None] | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Adds the values of both sides in each round, and the target of the ratio; prints them."""
        for seed, pair in enumerate(zip(ours, theirs, strict=True)):
            for system, value in zip((OURS, PEER), pair, strict=True):
                self.add(system, seed, metric, value, seconds[seed] if seconds else None)
        target = at_most if at_least is None else at_least
        if target is not None:
            self._targets[metric] = target, at_least is None
        print(f"{metric}: {', '.join(self._ratio_cells(metric, OURS, PEER))}", flush=True)

    def time_in_turn(self, metric: str, commands: Mapping[str, Sequence[Any]], rounds: int) -> None:
        """Runs the commands of `OURS` and `PEER` alternately, and adds their seconds from start to end."""
        times: dict[str, list[float]] = {system: [] for system in commands}
        for _ in range(rounds):
            for system, command in commands.items():
                start = time.perf_counter()
                subprocess.run(list(map(str, command)), check=True, capture_output=True)
                times[system].append(time.perf_counter() - start)
                print(f"{system}: {times[system][-1]:.1f} s", flush=True)
        self.add_in_turn(metric, times[OURS], times[PEER])

    def values(self, system: str, metric: str) -> dict[int, float]:
        """Returns the value of each seed."""
        table = self._table.where("task", self.task).where("system", system).where("metric", metric)
        return dict(zip(table.column("seed"), table.column("value"), strict=True))  # type: ignore[arg-type]

    def metrics(self) -> list[str]:
        """The names of all metrics."""
        return list(dict.fromkeys(metric for metric, _ in self._names("")))

    def means(self, *, of: str = "") -> Table:
        """Mean, deviation and number of the values of metrics that hold `of`, by metric and system."""
        table = Table(("metric", "system", "mean", "standard deviation", "runs"))
        for metric, system in self._names(of):
            mean, deviation, runs = mean_and_deviation(self.values(system, metric).values())
            table.add(metric, system, shown(mean), shown(deviation), runs)
        return table

    def grid(self, metrics: Sequence[str]) -> Table:
        """A row a system that has one of the metrics, a column a metric: means and standard deviations."""
        systems = dict.fromkeys(
            system for metric in metrics for name, system in self._names(metric) if name == metric
        )
        table = Table(("system", *metrics))
        for system in systems:
            cells = []
            for metric in metrics:
                mean, deviation, _ = mean_and_deviation(self.values(system, metric).values())
                shown_mean = shown(mean) if mean is None or not 0.001 <= abs(mean) < 1 else f"{mean:.3f}"
                cells.append(shown_mean if deviation is None else f"{shown_mean} ({shown(deviation)})")
            table.add(system, *cells)
        return table

    def ratios(self, pairs: Iterable[tuple[str, str]] = ((OURS, PEER),), *, of: str = "") -> Table:
        """
        Returns the ratio of the first of each pair of systems to the second, seed by seed, for
        metrics that hold `of`: the medians, the median of the ratios, and their range.
        """
        table = Table(("metric", "system", "median", "baseline", "median", "ratio (range)", "target"))
        for ours, theirs in pairs:
            for metric in dict.fromkeys(metric for metric, _ in self._names(of)):
                if self.values(ours, metric).keys() & self.values(theirs, metric).keys():
                    median, of_theirs, ratio, *target = self._ratio_cells(metric, ours, theirs)
                    table.add(metric, ours, median, theirs, of_theirs, ratio, *(target or [""]))
        return table

    def gains(self, metric: str, without: str) -> Table:
        """Returns by how much each other system reduces the error of one, for a metric in percent."""
        table = Table(("metric", "system", "baseline", "relative error reduction"))
        for name, system in self._names(metric) if self.values(without, metric) else ():
            if name == metric and system != without:
                before, after = (
                    statistics.mean(self.values(one, metric).values()) for one in (without, system)
                )
                table.add(metric, system, without, f"{(after - before) / (100 - before):.1%}")
        return table

    def _ratio_cells(self, metric: str, ours: str, theirs: str) -> list[str]:
        """Both medians, the ratio, and the target if there is one."""
        mine, peers = self.values(ours, metric), self.values(theirs, metric)
        seeds = sorted(mine.keys() & peers.keys())
        ratios = [mine[seed] / peers[seed] for seed in seeds]
        middle = statistics.median(ratios)
        ratio = f"{middle:.3g}"
        if len(ratios) > 1:
            ratio += f" ({min(ratios):.3g} to {max(ratios):.3g})"
        cells = [shown(statistics.median(side[seed] for seed in seeds)) for side in (mine, peers)] + [ratio]
        if metric in self._targets:
            target, at_most = self._targets[metric]
            reached = middle <= target if at_most else middle >= target
            kind = "at most" if at_most else "at least"
            cells.append(f"{kind} {target:g}: {'reached' if reached else 'not reached'}")
        return cells

    def _names(self, of: str) -> list[tuple[str, str]]:
        """The metrics that hold `of`, each with its systems."""
        table = self._table.where("task", self.task)
        rows = zip(map(str, table.column("metric")), map(str, table.column("system")), strict=True)
        names = dict.fromkeys((metric, system) for metric, system in rows if of in metric)
        order = list(dict.fromkeys(metric for metric, _ in names))
        return sorted(names, key=lambda name: order.index(name[0]))


def add_rates(
    results: Results, case: str, tokens: int, ours: list[float], theirs: list[float], at_least: float | None
) -> None:
    """The tokens a second of both sides, from the seconds of each round."""
    rates = ([tokens / taken for taken in times] for times in (ours, theirs))
    results.add_in_turn(f"{case}, tokens/s", *rates, seconds=ours, at_least=at_least)


def show(*tables: Table) -> None:
    """Those that have rows, and what they were measured on."""
    for table in tables:
        if table.rows:
            print(f"\n{table.markdown()}", end="")
    print(f"\n{versions()}", flush=True)


def shown(value: float | None) -> str:
    """A number for people."""
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 0.01 or value == 0 else f"{value:.1e}"


def versions() -> str:
    """Returns the machine and the versions that the numbers were measured with."""
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        info = ""
    model = re.search(r"model name\s*: (.*)", info)
    processor = model[1].strip() if model else platform.machine()
    vectors = "AVX-512" if "avx512f" in info else "no AVX-512"
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return (
        f"{processor} ({vectors}), {cpu_count()} cores, "
        f"{torch.get_num_threads()} threads{gpu}, "
        f"Python {platform.python_version()}, PyTorch {torch.__version__}, AllenNLP {version('allennlp')}, "
        f"elmo_tasks {__version__}"
    )


SIGNIFICANCE_LEVEL = 0.05
"""A difference is shown where its p value is below."""


class Score(NamedTuple):
    """Mean and standard deviation of one system over its seeds, in percent."""

    mean: float
    deviation: float | None
    runs: int

    def __str__(self) -> str:
        return f"{self.mean:.1f}" + ("" if self.deviation is None else f" ({self.deviation:.1f})")

    def gain(self, other: "Score", *, limit: float = 100.0) -> str:
        """Returns by how much it reduces the error of another; the error is the distance to the limit."""
        return f"{(self.mean - other.mean) / (limit - other.mean):.1%}"

    def p(self, other: "Score") -> float | None:
        """
        Returns the p value of Welch's t test, two-sided; `None` where a side has one run, or neither has a
        spread. Seeds are not paired: runs of two systems with one seed have little in common.
        """
        if self.deviation is None or other.deviation is None or not (self.deviation or other.deviation):
            return None
        value = float(ttest_ind_from_stats(*self, *other, equal_var=False).pvalue)
        return None if math.isnan(value) else value

    def shown_p(self, other: "Score") -> str:
        """For people."""
        return shown_p(self.p(other)) if min(self.runs, other.runs) > 1 else "one run"

    def starred(self, other: "Score | None") -> str:
        """With a star where the difference to another is shown."""
        p = None if other is None else self.p(other)
        return str(self) if p is None or p >= SIGNIFICANCE_LEVEL else f"{self} *"


def read_scores(path: Path, metric: str = "") -> dict[str, Score]:
    """
    The systems of a file: of rows of `Results` that have the metric; or of the table that
    `training.experiments.summary` or `ablate.sample_table` makes, whose fractions become percent.

    # Raises
    `InputError`: it is none of these.
    """
    table = Table.read(path)
    if table.columns == COLUMNS:
        rows = table.where("metric", metric)
        if not rows.rows:
            names = ", ".join(dict.fromkeys(map(str, table.column("metric"))))
            raise InputError(f"has no metric {metric!r}, only {names}", where=path)
        values = {system: rows.where("system", system).column("value") for system in rows.column("system")}
        return {str(system): Score(*mean_and_deviation(cells)) for system, cells in values.items()}  # type: ignore[arg-type]
    if table.columns[0] not in ("variant", "fraction"):
        raise InputError(f"is not a table of scores: its first column is {table.columns[0]}", where=path)
    # Of a fraction, the number of instances and with or without ELMo
    start, stop = (0, 1) if table.columns[0] == "variant" else (1, 3)
    return {
        " ".join(map(str, row[start:stop])): _percent(*row[stop : stop + 3])  # type: ignore[arg-type]
        for row in table.rows
    }


def shown_p(p: float | None) -> str:
    """A p value for people."""
    if p is None or p >= SIGNIFICANCE_LEVEL:
        return "not significant"
    return "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0")


def p_of_one(values: list[float], one: float) -> float | None:
    """Returns the p value of a two-sided t test against the mean `one`; `None` without a spread."""
    return float(ttest_1samp(values, one).pvalue) if len(set(values)) > 1 else None


def _percent(mean: float, deviation: float | None, runs: int) -> Score:
    return Score(100 * mean, None if deviation is None else 100 * deviation, runs)
