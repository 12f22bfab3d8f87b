"""The table of a verb's results, and the files that hold it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.base import flag, option
from elmo_tasks.commands.staging import check_output, publish, staging_folder
from elmo_tasks.common.plot import save
from elmo_tasks.common.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PICTURES = {".svg": "image/svg+xml", ".png": "image/png"}


class ResultsWriter:
    """
    A writer of a table as CSV, Markdown and a picture. It works in `folder`, which the caller removes;
    without an `output`, the CSV file, it only shows the table.
    """

    def __init__(self, folder: Path, output: Path | None) -> None:
        self.folder = folder
        self._output = output

    def write(self, table: Table, figure: "Figure | None" = None) -> None:
        """Writes the files of the output, if there is one, each when it is whole; and shows the table."""
        published = [] if self._output is None else self._publish(self._output, table, figure)
        print(table.markdown(), end="")
        if published:
            print(f"\n{self._output}: also {', '.join(published)}")

    def _publish(self, output: Path, table: Table, figure: "Figure | None") -> list[str]:
        """Returns the names of the files beside the CSV file."""
        new = self.folder / output.name
        new.write_text(table.csv(), encoding="utf-8")
        new.with_suffix(".md").write_text(table.markdown(), encoding="utf-8")
        if figure is not None:
            for suffix in PICTURES:
                save(figure, new.with_suffix(suffix))
        names = [new.with_suffix(suffix).name for suffix in (*PICTURES, ".md", ".csv")]
        published = publish(self.folder, output.parent, names)
        for suffix in PICTURES if figure is None else ():
            # The picture of a former table
            output.with_suffix(suffix).unlink(missing_ok=True)
        return published[:-1]


@dataclass(frozen=True, kw_only=True)
class ResultArguments:
    """The file of a verb's results."""

    output: Path | None = option(
        "file to write the results to; beside it OUT.md, and OUT.png and OUT.svg if there is a picture "
        "(default: only show them)",
        short="-o",
        metavar="OUT.csv",
    )
    force: bool = flag("overwrite OUT.csv")

    @contextmanager
    def writer(self) -> Iterator[ResultsWriter]:
        """Makes the writer. The file must be CSV, and is not overwritten without --force."""
        if self.output is None:
            with TemporaryDirectory() as temporary:
                yield ResultsWriter(Path(temporary), None)
            return
        if self.output.suffix != ".csv":
            raise ConfigurationError(f"--output: found {self.output}, expected a name that ends in .csv")
        for suffix in (".csv", ".md", *PICTURES):
            check_output(self.output.with_suffix(suffix), force=self.force)
        with staging_folder(self.output) as folder:
            yield ResultsWriter(folder, self.output)
