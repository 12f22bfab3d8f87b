"""Where a verb's results go: shown as Markdown, and written as CSV, Markdown and a picture."""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Optional

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.staging import add_output_argument, check_output, publish, staging_folder
from elmo_tasks.common.plot import save
from elmo_tasks.common.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = (".svg", ".png")


def add_output_arguments(parser: argparse.ArgumentParser, *, picture: bool = True) -> None:
    beside = (
        "OUT.md, OUT.png and OUT.svg, the same as Markdown and as a picture"
        if picture
        else "OUT.md, the same as Markdown"
    )
    add_output_argument(
        parser,
        "-o",
        "--output",
        metavar="OUT.csv",
        help=f"file to write the results to; beside it {beside} (default: only show them)",
    )


class ResultsWriter:
    """
    Shows a table, and writes it as CSV, Markdown and a picture.

    # Parameters

    folder : to work in; it is removed in the end.
    output : the CSV file, or `None` for nothing to be written.
    """

    def __init__(self, folder: Path, output: Path | None) -> None:
        self.folder = folder
        self._output = output

    def write(self, table: Table, figure: Optional["Figure"] = None) -> None:
        """Writes the files of an output, if there is one, each when it is whole; and shows the table."""
        published = [] if self._output is None else self._publish(self._output, table, figure)
        print(table.markdown(), end="")
        if published:
            print(f"\n{self._output}: also {', '.join(published)}")

    def _publish(self, output: Path, table: Table, figure: Optional["Figure"]) -> list[str]:
        """The names of what stands beside the CSV file then."""
        new = self.folder / output.name
        new.write_text(table.csv(), encoding="utf-8")
        new.with_suffix(".md").write_text(table.markdown(), encoding="utf-8")
        if figure is not None:
            save_pictures(figure, new)
        names = [new.with_suffix(suffix).name for suffix in (*PICTURES, ".md", ".csv")]
        published = publish(self.folder, output.parent, names)
        for suffix in PICTURES if figure is None else ():
            # That of another table
            output.with_suffix(suffix).unlink(missing_ok=True)
        return published[:-1]


@contextmanager
def open_results(arguments: argparse.Namespace) -> Iterator[ResultsWriter]:
    """
    The writer that the arguments of `add_output_arguments` ask for. They are checked at once.

    # Raises
    `ConfigurationError`: not the name of a CSV file, or a file that must not be overwritten. `OSError`: a
    place that cannot be written to.
    """
    output: Path | None = arguments.output
    with ExitStack() as stack:
        if output is None:
            yield ResultsWriter(Path(stack.enter_context(TemporaryDirectory())), None)
            return
        if output.suffix != ".csv":
            raise ConfigurationError(f"--output: found {output}, expected a name that ends in .csv")
        for suffix in (".csv", ".md", *PICTURES):
            check_output(output.with_suffix(suffix), force=arguments.force)
        yield ResultsWriter(stack.enter_context(staging_folder(output)), output)


def save_pictures(figure: "Figure", path: Path) -> None:
    """In each of the formats, beside `path`."""
    save_svg(figure, path)
    save(figure, path.with_suffix(".png"))


def save_svg(figure: "Figure", path: Path) -> None:
    """Beside `path`; equal figures are equal files."""
    save(figure, path.with_suffix(".svg"))
