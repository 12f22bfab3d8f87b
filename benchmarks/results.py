"""What was measured, as rows of one CSV format, and the tables that are made of them."""

import argparse
import platform
import re
import statistics
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import torch

from elmo_tasks.common.files import atomic_file
from elmo_tasks.common.processes import cpu_count
from elmo_tasks.evaluation.table import Table
from elmo_tasks.training.experiments import spread

COLUMNS = ("task", "system", "seed", "metric", "value", "seconds", "versions")
"""`seed`: or the round, of what was measured several times in turn. `seconds`: what the measurement took."""
OURS, PEER = "ours", "peer"


def add_results_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--csv", type=Path, help="file to write the results to (default: only show them)")


class Results:
    """
    The rows of a task.

    # Parameters

    task : whose rows they are; a file may hold those of several.
    path : the CSV file, or `None` for none. It has each row as soon as it is known.
    keep : go on with the rows that the file has of the task.
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
        """What both sides had in each round, and the target of the ratio; shown at once, as runs are long."""
        for seed, pair in enumerate(zip(ours, theirs, strict=True)):
            for system, value in zip((OURS, PEER), pair, strict=True):
                self.add(system, seed, metric, value, seconds[seed] if seconds else None)
        target = at_most if at_least is None else at_least
        if target is not None:
            self._targets[metric] = target, at_least is None
        print(f"{metric}: {', '.join(self._ratio_cells(metric, OURS, PEER))}", flush=True)

    def values(self, system: str, metric: str) -> dict[int, float]:
        """Of each seed."""
        table = self._table.where("task", self.task).where("system", system).where("metric", metric)
        return dict(zip(table.column("seed"), table.column("value"), strict=True))  # type: ignore[arg-type]

    def metrics(self) -> list[str]:
        """The names of all metrics."""
        return list(dict.fromkeys(metric for metric, _ in self._names("")))

    def means(self, *, of: str = "") -> Table:
        """The `spread` of the values of metrics that hold `of`, by metric and system."""
        table = Table(("metric", "system", "mean", "standard deviation", "runs"))
        for metric, system in self._names(of):
            mean, deviation, runs = spread(self.values(system, metric).values())
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
                mean, deviation, _ = spread(self.values(system, metric).values())
                shown_mean = shown(mean) if mean is None or not 0.001 <= abs(mean) < 1 else f"{mean:.3f}"
                cells.append(shown_mean if deviation is None else f"{shown_mean} ({shown(deviation)})")
            table.add(system, *cells)
        return table

    def ratios(self, pairs: Iterable[tuple[str, str]] = ((OURS, PEER),), *, of: str = "") -> Table:
        """
        The values of the first of each pair of systems as a part of those of the second, seed by seed, for
        metrics that hold `of`: the medians, the median of the ratios, and their range.
        """
        table = Table(("metric", "system", "median", "beside", "median", "ratio (range)", "target"))
        for ours, theirs in pairs:
            for metric in dict.fromkeys(metric for metric, _ in self._names(of)):
                if self.values(ours, metric).keys() & self.values(theirs, metric).keys():
                    median, beside, ratio, *target = self._ratio_cells(metric, ours, theirs)
                    table.add(metric, ours, median, theirs, beside, ratio, *(target or [""]))
        return table

    def gains(self, metric: str, without: str) -> Table:
        """What share of the error of a system each other takes by a metric in percent."""
        table = Table(("metric", "system", "beside", "relative error reduction"))
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
    """What the numbers were measured on, and with."""
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
        f"elmo_tasks {version('elmo_tasks')}"
    )
