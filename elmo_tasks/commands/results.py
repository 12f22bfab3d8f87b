"""Where a verb's results go: shown as Markdown, and written as CSV, Markdown and a picture."""

import argparse
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Optional

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.staging import check_output, staging_folder
from elmo_tasks.evaluation.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def add_output_arguments(parser: argparse.ArgumentParser, *, picture: bool = True) -> None:
    beside = (
        "OUT.md and OUT.png, the same as Markdown and a picture"
        if picture
        else "OUT.md, the same as Markdown"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT.csv",
        type=Path,
        help=f"file to write the results to; beside it {beside} (default: only show them)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite these files")


class Results:
    """
    # Parameters

    folder : to work in; it is removed in the end.
    output : the CSV file, or `None` for nothing to be written.
    """

    def __init__(self, folder: Path, output: Path | None) -> None:
        self.folder = folder
        self._output = output

    def write(self, table: Table, figure: Optional["Figure"] = None) -> None:
        """Shows the table; where there is an output, each of its files appears when it is whole."""
        print(table.markdown(), end="")
        if self._output is None:
            return
        new = self.folder / self._output.name
        new.write_text(table.csv(), encoding="utf-8")
        new.with_suffix(".md").write_text(table.markdown(), encoding="utf-8")
        if figure is not None:
            figure.savefig(new.with_suffix(".png"), dpi=150, bbox_inches="tight")
        written = [path for path in map(new.with_suffix, (".png", ".md", ".csv")) if path.exists()]
        for path in written:
            os.replace(path, self._output.with_name(path.name))
        print(f"\n{self._output}: also {', '.join(path.name for path in written[:-1])}")


@contextmanager
def results(arguments: argparse.Namespace) -> Iterator[Results]:
    """
    Of the arguments that `add_output_arguments` adds, checked before anything is computed.

    # Raises
    `ConfigurationError`: not the name of a CSV file, or a file that must not be overwritten. `OSError`: a
    place that cannot be written to.
    """
    output: Path | None = arguments.output
    with ExitStack() as stack:
        if output is None:
            yield Results(Path(stack.enter_context(TemporaryDirectory())), None)
            return
        if output.suffix != ".csv":
            raise ConfigurationError(f"--output: found {output}, expected a name that ends in .csv")
        for suffix in (".csv", ".md", ".png"):
            check_output(output.with_suffix(suffix), force=arguments.force)
        yield Results(stack.enter_context(staging_folder(output)), output)
