"""The verb `report`: the results of verbs as one HTML file."""

import math
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo_tasks.commands.base import Input, Verb, flag, option, positional, run_name
from elmo_tasks.commands.results import PICTURES
from elmo_tasks.commands.staging import staged_file
from elmo_tasks.common.table import Cell, Table, shown
from elmo_tasks.data.input_files import InputError
from elmo_tasks.page.templates import page_template

TEMPLATE = Path(__file__).with_name("report.html")
KINDS = {
    "query": "Nearest neighbours",
    "archive": "Learned mixes",
    "test": "Similarity and analogies",
    "vectors": "Probe",
    "fraction": "Sizes of the training data",
    "variant": "Variants",
}
"""The subject of a table, by its first column."""
_WITHOUT_BEST = ("query", "archive")
_LOWER_IS_BETTER = ("loss", "perplexity")


@dataclass(frozen=True)
class ReportEntry:
    """A CSV file of a verb, its table, and the picture beside it, if there is one, as a `data:` URI."""

    path: Path
    table: Table
    picture: str | None

    @classmethod
    def read(cls, path: Path) -> "ReportEntry":
        pictures = (
            f"data:{kind};base64,{b64encode(path.with_suffix(suffix).read_bytes()).decode()}"
            for suffix, kind in PICTURES.items()
            if path.with_suffix(suffix).exists()
        )
        return cls(path, Table.read(path), next(pictures, None))

    @property
    def title(self) -> str:
        """The subject of the table, and the name of the file."""
        kind = KINDS.get(self.table.columns[0])
        name = self.path.stem.replace("_", " ")
        return name.capitalize() if kind is None else f"{kind}: {name}"

    def best(self) -> str:
        """Returns the best score and its row; an empty text if the table has no scores."""
        columns = self.table.columns
        # The first column, such as the part of the data, was asked for and is no score.
        scores = (
            column
            for column in columns[1:]
            if any(isinstance(cell, float) for cell in self.table.column(column))
        )
        score = next(scores, None)
        if score is None or columns[0] in _WITHOUT_BEST:
            return ""
        index = columns.index(score)
        numbers = [
            cell
            for cell in self.table.column(score)
            if isinstance(cell, int | float) and not math.isnan(cell)
        ]
        if not numbers:
            return ""
        best = min(numbers) if score.endswith(_LOWER_IS_BETTER) else max(numbers)
        row = next(row for row in self.table.rows if row[index] == best)
        first = f"{columns[0]} {row[0]:g}" if isinstance(row[0], float) else row[0]
        names = [cell for cell in (first, *row[1:index]) if isinstance(cell, str)]
        return f"{score} {shown(row[index])}: {', '.join(names)}"


@dataclass(frozen=True, kw_only=True)
class Report(Verb):
    name = "report"
    help = "Tables and pictures of results, as one HTML file."
    description = """Puts the results of intrinsic, neighbors, probe, mix, compare and ablate into one HTML
        file, with a summary, and the table and picture of each. It needs no server, no script and no other
        file."""

    paths: list[Input] = positional(
        "PLACE", "a folder with results, at any depth, or a CSV file of them", nargs="+"
    )
    output: Path = option("file to write", Path("report.html"), short="-o", metavar="HTML")
    force: bool = flag("overwrite HTML")

    def run(self) -> None:
        with staged_file(self.output, force=self.force) as path:
            paths = [path for name in self.paths for path in find_results(Path(name))]
            entries = [ReportEntry.read(csv) for csv in dict.fromkeys(paths)]
            path.write_text(render(entries), encoding="utf-8")
        print(f"{self.output}: {len(entries)} results")


def find_results(path: Path) -> list[Path]:
    """
    Returns the CSV files in a folder, at any depth, or the file at the path, that have a Markdown file
    beside them, as `ResultsWriter` writes them; an `InputError` if there are none.
    """
    files = [path] if path.is_file() else path.rglob("*.csv")
    paths = sorted(file for file in files if file.with_suffix(".md").exists())
    if not paths:
        raise InputError.at(path, found="no results", expected="a CSV file with its Markdown beside it")
    return paths


def render(entries: Sequence[ReportEntry]) -> str:
    """Returns the page; equal titles get the names of their folders."""
    count = Counter(entry.title for entry in entries)
    titles = [
        f"{entry.title} ({entry.path.parent.name})" if count[entry.title] > 1 else entry.title
        for entry in entries
    ]
    results = list(zip(titles, entries, strict=True))
    return page_template(TEMPLATE, shown=_shown).render(results=results)


def _shown(cell: Cell, column: str) -> str:
    """Returns a cell as the report shows it: the name of the run for an archive."""
    if column == "archive" and isinstance(cell, str):
        return run_name(cell)
    return shown(cell)
