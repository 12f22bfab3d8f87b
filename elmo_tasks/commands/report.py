"""`allennlp elmo report`: what other verbs have found, as one HTML file."""

import argparse
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from elmo_tasks.commands.base import Verb
from elmo_tasks.commands.page import page_template
from elmo_tasks.commands.staging import add_output_argument, staged_file
from elmo_tasks.data.input_files import InputError
from elmo_tasks.evaluation.table import Table, shown

TEMPLATE = Path(__file__).with_name("report.html")


class ReportEntry(NamedTuple):
    """A CSV file of a verb, its table, and the PNG beside it, if there is one, as a `data:` URI."""

    path: Path
    table: Table
    picture: str | None

    @classmethod
    def read(cls, path: Path) -> "ReportEntry":
        picture = path.with_suffix(".png")
        data = (
            f"data:image/png;base64,{b64encode(picture.read_bytes()).decode()}" if picture.exists() else None
        )
        return cls(path, Table.read(path), data)


class Report(Verb):
    """See `find_results` and `render`."""

    name = "report"
    help = "Tables and pictures of results, as one HTML file."
    description = """Puts what intrinsic, neighbors, probe, mix, compare and ablate have written into one HTML
        file, table and picture of each, which needs no server, no script and no other file."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("folders", metavar="FOLDER", nargs="+", help="with results, at any depth")
        add_output_argument(
            parser, "-o", "--output", metavar="HTML", help="file to write", default=Path("report.html")
        )

    def run(self, arguments: argparse.Namespace) -> None:
        output: Path = arguments.output
        with staged_file(output, force=arguments.force) as path:
            paths = [path for name in arguments.folders for path in find_results(Path(name))]
            entries = [ReportEntry.read(csv) for csv in dict.fromkeys(paths)]
            path.write_text(render(entries), encoding="utf-8")
        print(f"{output}: {len(entries)} results")


def find_results(folder: Path) -> list[Path]:
    """
    The CSV files below a folder that have a Markdown file beside them, as `ResultsWriter` writes them.

    # Raises
    `InputError`: there are none.
    """
    paths = sorted(path for path in folder.rglob("*.csv") if path.with_suffix(".md").exists())
    if not paths:
        raise InputError.at(folder, found="no results", expected="a CSV file with its Markdown beside it")
    return paths


def render(entries: Sequence[ReportEntry]) -> str:
    """The page."""
    return page_template(TEMPLATE, shown=shown).render(results=entries)
