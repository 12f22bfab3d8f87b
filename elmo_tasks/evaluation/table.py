"""Results as plain rows, for CSV, Markdown, pictures and reports."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, field

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
        """One row more."""
        self._check(cells)
        self.rows.append(cells)

    def column(self, name: str) -> list[Cell]:
        """The cells under a name, from top to bottom."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def where(self, name: str, *values: Cell) -> "Table":
        """The rows that have one of `values` under a name."""
        kept = [row for row, cell in zip(self.rows, self.column(name), strict=True) if cell in values]
        return Table(self.columns, kept)

    def csv(self) -> str:
        """As RFC 4180 has it, but with LF; a number as Python writes it, so that it reads back the same."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()

    def markdown(self) -> str:
        """Numbers to the right, fractions with four digits."""
        numbers = [any(isinstance(cell, int | float) for cell in self.column(name)) for name in self.columns]
        return "".join(
            f"| {' | '.join(cells)} |\n"
            for cells in (
                map(_shown, self.columns),
                ["---:" if number else "---" for number in numbers],
                *(map(_shown, row) for row in self.rows),
            )
        )

    def _check(self, row: Iterable[Cell]) -> None:
        found, expected = len(tuple(row)), len(self.columns)
        if found != expected:
            raise ValueError(f"found a row of {found} cells, expected {expected}: {', '.join(self.columns)}")


def _shown(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:.4f}"
    return "" if cell is None else str(cell).replace("\\", "\\\\").replace("|", "\\|")
