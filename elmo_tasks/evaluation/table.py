"""Results as plain rows, for CSV, Markdown, pictures and reports."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from elmo_tasks.data.input_files import InputError, read_lines

Cell = str | int | float | None
"""`None` is an empty cell."""


@dataclass(frozen=True)
class Table:
    """
    Rows of cells under named columns.

    # Raises
    `ValueError`: a row has not one cell a column.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for row in self.rows:
            self._check(row)

    def add(self, *cells: Cell) -> None:
        """Adds a row."""
        self._check(cells)
        self.rows.append(cells)

    def column(self, name: str) -> list[Cell]:
        """The cells under a name, from top to bottom."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def where(self, name: str, *values: Cell) -> "Table":
        """The rows that have one of `values` under a name."""
        rows = [row for row, cell in zip(self.rows, self.column(name), strict=True) if cell in values]
        return Table(self.columns, rows)

    @classmethod
    def read(cls, path: Path) -> "Table":
        """
        What `csv` has written; cells are numbers where they are written as Python writes them.

        # Raises
        `InputError`, with the line: it is no CSV, or has a row of other than one cell a column.
        """
        lines = csv.reader((f"{line}\n" for _, line in read_lines(path)), strict=True)
        try:
            table = cls(tuple(next(lines, ())))
            for cells in lines:
                if len(cells) != len(table.columns):
                    expected = f"{len(table.columns)}: {', '.join(table.columns)}"
                    raise InputError.at(path, lines.line_num, found=f"{len(cells)} cells", expected=expected)
                table.add(*map(_parsed, cells))
        except csv.Error as error:
            raise InputError.at(path, lines.line_num, found=str(error), expected="CSV") from error
        if not table.columns:
            raise InputError.at(path, found="nothing", expected="a line with the names of columns")
        return table

    def csv(self) -> str:
        """
        The table as RFC 4180 has it, but with LF; a number as Python writes it, so that it reads back the
        same.
        """
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()

    def markdown(self) -> str:
        """The table as Markdown, cells as `shown`, numbers to the right."""
        return "".join(
            f"| {' | '.join(cells)} |\n"
            for cells in (
                map(_escaped, self.columns),
                ["---:" if self.has_numbers(name) else "---" for name in self.columns],
                *(map(_escaped, row) for row in self.rows),
            )
        )

    def has_numbers(self, name: str) -> bool:
        """Whether a cell under the name is a number."""
        return any(isinstance(cell, int | float) for cell in self.column(name))

    def _check(self, row: Iterable[Cell]) -> None:
        found, expected = len(tuple(row)), len(self.columns)
        if found != expected:
            raise ValueError(f"found a row of {found} cells, expected {expected}: {', '.join(self.columns)}")


def shown(cell: Cell) -> str:
    """A cell for people: fractions with four digits."""
    if isinstance(cell, float):
        return f"{cell:.4f}"
    return "" if cell is None else str(cell)


def _escaped(cell: Cell) -> str:
    return shown(cell).replace("\\", "\\\\").replace("|", "\\|")


def _parsed(text: str) -> Cell:
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if str(number) == text:
            return number
    return text or None
