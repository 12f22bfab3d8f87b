"""The results of verbs, a table as CSV, Markdown and pictures; and `report`, which shows them on a page."""

import math
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.base import ArgumentGroup, Input, Verb, flag, option, positional, run_name
from elmo_tasks.commands.partial_outputs import check_output, partial_file, partial_folder, publish
from elmo_tasks.common.table import Cell, Table, shown
from elmo_tasks.data.input_files import check_found
from elmo_tasks.evaluation.plots import save
from elmo_tasks.page.templates import template

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PICTURES = {".svg": "image/svg+xml", ".png": "image/png"}
SUBJECTS = {
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


class ResultsWriter:
    """
    A writer of a table as CSV, Markdown and a picture. It works in `folder`, which the caller removes.
    `output` is the CSV file; without one, the table is only shown.
    """

    def __init__(self, folder: Path, output: Path | None) -> None:
        self.folder = folder
        self._output = output

    def write(self, table: Table, figure: "Figure | None" = None) -> None:
        """Shows the table, and writes its files, each when it is whole."""
        if (output := self._output) is None:
            print(table.markdown(), end="")
            return
        new = self.folder / output.name
        new.write_text(table.csv(), encoding="utf-8")
        new.with_suffix(".md").write_text(table.markdown(), encoding="utf-8")
        if figure is not None:
            for suffix in PICTURES:
                save(figure, new.with_suffix(suffix))
        names = [new.with_suffix(suffix).name for suffix in (*PICTURES, ".md", ".csv")]
        *others, _ = publish(self.folder, output.parent, names)
        for suffix in PICTURES if figure is None else ():
            # The picture of an earlier table
            output.with_suffix(suffix).unlink(missing_ok=True)
        print(f"{table.markdown()}\n{output}: also {', '.join(others)}")


class ResultArguments(ArgumentGroup):
    output: Path | None = option(
        "file to write the results to, with OUT.md, and with OUT.png and OUT.svg if there is a picture "
        "(default: only show them)",
        short="-o",
        metavar="OUT.csv",
    )
    force: bool = flag("overwrite OUT.csv")

    @contextmanager
    def writer(self) -> Iterator[ResultsWriter]:
        """Checks that the file is CSV, and that only --force overwrites one."""
        if self.output is None:
            with TemporaryDirectory() as temporary:
                yield ResultsWriter(Path(temporary), None)
            return
        if self.output.suffix != ".csv":
            raise ConfigurationError(f"--output {self.output} must end in .csv")
        for suffix in (".csv", ".md", *PICTURES):
            check_output(self.output.with_suffix(suffix), force=self.force)
        with partial_folder(self.output) as folder:
            yield ResultsWriter(folder, self.output)


@dataclass(frozen=True)
class ReportEntry:
    """A CSV file of a verb, its table, and its picture, if there is one, as a `data:` URI."""

    path: Path
    table: Table
    picture: str | None

    @classmethod
    def read(cls, path: Path) -> "ReportEntry":
        pictures = (
            f"data:{kind};base64,{b64encode(path.with_suffix(suffix).read_bytes()).decode()}"
            for suffix, kind in PICTURES.items()
            if _is_file(path.with_suffix(suffix))
        )
        return cls(path, Table.read(path), next(pictures, None))

    @property
    def title(self) -> str:
        kind = SUBJECTS.get(self.table.columns[0])
        name = self.path.stem.replace("_", " ")
        return name.capitalize() if kind is None else f"{kind}: {name}"

    def best(self) -> str:
        """Names the best score and its row; nothing for a table without scores, or with several tests."""
        columns, rows = self.table.columns, self.table.rows
        if {"test", "vectors"} <= {*columns} and len({row[: columns.index("vectors")] for row in rows}) > 1:
            return ""
        # The first column, such as the part of the data, was asked for and is not a score.
        with_fractions = (
            index for index in range(1, len(columns)) if any(isinstance(row[index], float) for row in rows)
        )
        index = next(with_fractions, None)
        if index is None or columns[0] in _WITHOUT_BEST:
            return ""
        score = columns[index]
        scored = [row for row in rows if isinstance(cell := row[index], int | float) and not math.isnan(cell)]
        choose: Any = min if score.endswith(_LOWER_IS_BETTER) else max
        row = choose(scored, key=itemgetter(index), default=None)
        if row is None:
            return ""
        first = f"{columns[0]} {row[0]:g}" if isinstance(row[0], float) else row[0]
        names = [cell for cell in (first, *row[1:index]) if isinstance(cell, str)]
        return f"{score} {shown(row[index])}: {', '.join(names)}"


class Report(Verb):
    name = "report"
    help = "Tables and pictures of results, as one HTML file."
    description = """Puts the results of intrinsic, neighbors, probe, mix, compare and ablate into one HTML
        file, with a summary, and the table and picture of each. It needs no server, no script and no other
        file. Links in a folder are left out."""

    paths: list[Input] = positional(
        "PLACE", "a folder with results, at any depth, or a CSV file of them", nargs="+"
    )
    output: Path = option("file to write", Path("report.html"), short="-o", metavar="HTML")
    force: bool = flag("overwrite HTML")

    def run(self) -> None:
        with partial_file(self.output, force=self.force) as path:
            paths = [path for name in self.paths for path in find_results(Path(name))]
            entries = [ReportEntry.read(csv) for csv in dict.fromkeys(paths)]
            path.write_text(report_page(entries), encoding="utf-8")
        print(f"{self.output}: {len(entries)} results")


def find_results(path: Path) -> list[Path]:
    """
    Returns the CSV files in a folder, at any depth, or the file at the path, that have a Markdown file of the
    same name, as `ResultsWriter` writes them; an `InputError` if there are none. Links in a folder may lead
    anywhere, and are left out.
    """
    files = [path] if path.is_file() else filter(_is_file, path.rglob("*.csv"))
    paths = sorted(file for file in files if file.with_suffix(".md").exists())
    check_found(paths, "results: CSV files with a Markdown file of the same name", path)
    return paths


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def report_page(entries: Sequence[ReportEntry]) -> str:
    count = Counter(entry.title for entry in entries)
    # Equal titles get the names of their folders.
    titles = [
        f"{entry.title} ({entry.path.parent.name})" if count[entry.title] > 1 else entry.title
        for entry in entries
    ]

    def shown_cell(cell: Cell, column: str) -> str:
        return run_name(cell) if column == "archive" and isinstance(cell, str) else shown(cell)

    return template("report.html").render(results=list(zip(titles, entries, strict=True)), shown=shown_cell)
