"""What systems score over their seeds, as docs/results/ has it, and which differences are beyond chance."""

import math
from pathlib import Path
from typing import NamedTuple

from scipy.stats import ttest_1samp, ttest_ind_from_stats

from benchmarks.results import COLUMNS
from elmo_tasks.data.input_files import InputError
from elmo_tasks.evaluation.table import Table
from elmo_tasks.training.experiments import spread

SIGNIFICANCE_LEVEL = 0.05
"""A difference is shown where its p value is below."""


class Score(NamedTuple):
    """Of one system over its seeds, in percent: their mean and standard deviation."""

    mean: float
    deviation: float | None
    runs: int

    def __str__(self) -> str:
        return f"{self.mean:.1f}" + ("" if self.deviation is None else f" ({self.deviation:.1f})")

    def gain(self, other: "Score", *, limit: float = 100.0) -> str:
        """What part of the error of another it takes, the error being what is left to the limit."""
        return f"{(self.mean - other.mean) / (limit - other.mean):.1%}"

    def p(self, other: "Score") -> float | None:
        """
        Of Welch's t test, two-sided; `None` where a side has one run, or neither has a spread. Seeds are not
        paired: runs of two systems with one seed have little in common.
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
            raise InputError.at(path, found=f"no {metric}", expected=f"a metric of {names}")
        values = {system: rows.where("system", system).column("value") for system in rows.column("system")}
        return {str(system): Score(*spread(of_seeds)) for system, of_seeds in values.items()}  # type: ignore[arg-type]
    if table.columns[0] not in ("variant", "fraction"):
        raise InputError.at(
            path, found=f"the column {table.columns[0]}", expected="rows, variants or fractions"
        )
    # Of a fraction, the number of instances and with or without ELMo
    start, stop = (0, 1) if table.columns[0] == "variant" else (1, 3)
    return {
        " ".join(map(str, row[start:stop])): _percent(*row[stop : stop + 3])  # type: ignore[arg-type]
        for row in table.rows
    }


def shown_p(p: float | None) -> str:
    """A p value for people."""
    if p is None or p >= SIGNIFICANCE_LEVEL:
        return "not shown"
    return "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0")


def p_of_one(values: list[float], one: float) -> float | None:
    """Of a t test, two-sided: that values have the mean `one`; `None` for values without a spread."""
    return float(ttest_1samp(values, one).pvalue) if len(set(values)) > 1 else None


def _percent(mean: float, deviation: float | None, runs: int) -> Score:
    return Score(100 * mean, None if deviation is None else 100 * deviation, runs)
