"""Tables of results as CSV and Markdown."""

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import text_lines

Cell = str | int | float | None
"""`None` is an empty cell."""


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, such as `1 record` and `2,000 records`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns, each with one cell per column."""

    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        self.rows.append(cells)

    def column(self, name: str) -> list[Cell]:
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def where(self, name: str, *values: Cell) -> "Table":
        rows = [row for row, cell in zip(self.rows, self.column(name), strict=True) if cell in values]
        return Table(self.columns, rows)

    def has_numbers(self, name: str) -> bool:
        return any(isinstance(cell, int | float) for cell in self.column(name))

    @classmethod
    def read(cls, path: Path) -> "Table":
        """
        Reads a file that `csv` has written. A cell is a number if Python writes that number in the same way.
        A row that does not have one cell per column is an `ElmoError`, with the line.
        """
        lines = csv.reader(f"{line}\n" for _, line in text_lines(path))
        table = cls(tuple(next(lines, ())))
        for cells in lines:
            if len(cells) != len(table.columns):
                what = f"the row has {len(cells)} cells in {len(table.columns)} columns"
                raise ElmoError(what, where=path, line=lines.line_num)
            table.add(*map(_parsed, cells))
        return table

    def csv(self) -> str:
        """Returns the table as CSV (RFC 4180, but with LF). Numbers read back as the same numbers."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()

    def markdown(self) -> str:
        """Returns the table as Markdown, with rounded numbers (`shown`), columns of numbers right-aligned."""
        marks = ["---:" if self.has_numbers(name) else "---" for name in self.columns]
        lines = [map(_escaped, self.columns), marks, *(map(_escaped, row) for row in self.rows)]
        return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def shown(cell: Cell) -> str:
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
