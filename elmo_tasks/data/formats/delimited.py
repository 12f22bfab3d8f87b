"""
Tables in text files: rows of cells with a delimiter between them.

Quotes are those of RFC 4180: a cell with the delimiter, or with line breaks, is enclosed in `"`, and `""` is
a quote in it. Some files enclose cells in `'`. Which of them have a meaning is decided for each file, by the
rows that break otherwise.
"""

import csv
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from elmo_tasks.common.machine import ChangeWhileUsed
from elmo_tasks.data.input_files import InputError, Record, read_lines, shorten

logger = logging.getLogger(__name__)

DELIMITERS = ("\t", ",", ";", "|", "@")
QUOTES = ('"', "'")
_FIRST_LINES = 100
_SEPARATOR = re.compile("sep=.")
_ENCLOSED = {quote: re.compile(rf"\s*{quote}(?:[^{quote}]|{quote}{quote})*{quote}\s*") for quote in QUOTES}
"""A whole cell between quotes."""

NumberedLines = Sequence[tuple[int, str]]
Rows = Iterator[tuple[int, list[str] | InputError]]
"""The cells of each row that is not empty, or its error, and the line at which it starts."""


class DelimitedLayout(NamedTuple):
    """The columns and the dialect of a file, as far as the reader gives them."""

    columns: Sequence[str] | None = None
    """The names of the columns, where the file has no header."""
    delimiter: str = "auto"
    """`auto` takes the mark of `DELIMITERS` that splits most rows into as many cells as the first."""
    quotes: bool | Literal["auto", "'"] = "auto"
    """`True` is `"`; with `auto` the quotes are found, see `find_dialect`."""


AUTO = DelimitedLayout()


class Dialect(NamedTuple):
    """The delimiter, and the quotes that enclose cells, if any do."""

    delimiter: str
    quote: str | None


def read_delimited(
    path: Path, layout: DelimitedLayout = AUTO, *, encoding: str | None = None
) -> Iterator[Record]:
    """
    Yields the records of a file. Without names in the layout, the first row has the names; a row that says
    them again is left out. Empty rows, and empty cells at the end of a row, are left out. Columns without a
    name have no values in a record. Warnings count the rows with a text after the last column with a name,
    and repeated headers. A row with another number of columns, or quotes that are not closed, is a damaged
    record; a column that the header has twice is an `InputError`.
    """
    lines, columns = delimited_lines(path, encoding), layout.columns
    rows = split_rows(path, lines, find_dialect(lines, layout))
    header: list[str] | None = None
    if columns is None:
        line_number, first = next(rows, (1, []))
        if isinstance(first, InputError):
            raise first
        columns = header = [name.strip() for name in first]
        for name in columns:
            if name and columns.count(name) > 1:
                raise InputError(f"the header has the column {name!r} twice", where=path, line=line_number)
    num_named = max((count for count, name in enumerate(columns, start=1) if name), default=0)
    named_columns = [(index, name) for index, name in enumerate(columns) if name]
    unnamed: list[int] = []
    repeated: list[int] = []
    for line, row in rows:
        if isinstance(row, InputError):
            yield Record(path, line, row)
        elif not num_named <= len(row) or any(row[len(columns) :]):
            what = f"there are {len(row)} columns, not {len(columns)}: {shorten(', '.join(columns), 200)}"
            remedy = "cells with the delimiter need quotes" if len(row) > len(columns) else ""
            yield Record(path, line, InputError(what, where=path, line=line, remedy=remedy))
        elif header is not None and [cell.strip() for cell in row] == header:
            repeated.append(line)
        else:
            if any(row[num_named:]):
                unnamed.append(line)
            yield Record(path, line, {name: row[index] for index, name in named_columns})
    for lines_of_rows, what in (
        (unnamed, "text after the last column with a name is not read"),
        (repeated, "the row is the header once more, and left out"),
    ):
        if lines_of_rows:
            message = "%s, line %d: %s (such rows: %d)"
            logger.warning(message, path, lines_of_rows[0], what, len(lines_of_rows))


def delimited_lines(path: Path, encoding: str | None = None) -> list[tuple[int, str]]:
    """Returns the numbered lines of a file, see `without_separator`."""
    return without_separator(list(read_lines(path, encoding=encoding)))


def without_separator(lines: NumberedLines) -> list[tuple[int, str]]:
    """Returns lines without Excel's first line, which has the delimiter, and without blanks at their ends."""
    first = 1 if lines and _SEPARATOR.fullmatch(lines[0][1]) else 0
    return [(line_number, line.rstrip(" ")) for line_number, line in lines[first:]]


def dialect_of(path: Path, layout: DelimitedLayout, *, encoding: str | None) -> Dialect:
    """Returns the dialect of a file."""
    return find_dialect(delimited_lines(path, encoding), layout)


def split_rows(path: Path, lines: NumberedLines, dialect: Dialect) -> Rows:
    """Yields the rows of numbered lines. After a row whose quotes break, it goes on with the next line."""
    if dialect.quote is None:
        for line_number, line in lines:
            if line.strip():
                yield line_number, line.split(dialect.delimiter)
        return
    rows = _reader((f"{line}\n" for _, line in lines), dialect, strict=True)
    start = 0
    with _long_cells():
        while True:
            try:
                for row in rows:
                    if any(map(str.strip, row)):
                        yield lines[start][0], row
                    start = rows.line_num
                return
            except csv.Error as error:
                number = rows.line_num - start
                extent = f" in {number} lines" if number > 1 else ""
                what = f"the quotes of the row break{extent} ({error})"
                yield lines[start][0], InputError(what, where=path, line=lines[start][0])
                start = rows.line_num


def split_lines(lines: Sequence[str], dialect: Dialect) -> list[list[str]]:
    """Returns the cells of lines that are no neighbours; of quotes that break, those up to the break."""
    if dialect.quote is None:
        return [line.split(dialect.delimiter) for line in lines]
    with _long_cells():
        return [row for line in lines for row in _reader([line.replace("\r", " ")], dialect)]


def _reader(lines: Iterable[str], dialect: Dialect, *, strict: bool = False) -> Any:
    delimiter, quote = dialect
    return csv.reader(lines, delimiter=delimiter, quotechar=quote, strict=strict, skipinitialspace=True)


def find_dialect(lines: NumberedLines, layout: DelimitedLayout) -> Dialect:
    """
    Returns the dialect of the lines of a file. Of the quotes it takes those with which the fewest lines are
    in rows of another number of cells; of equal ones `"` between commas, or where quotes are needed: for a
    delimiter, a line break or a doubled quote in a cell, or around each cell of a column.
    """
    columns, delimiter, quotes = layout
    # A carriage return in a cell that has no quotes is an error of `csv`.
    texts = [line.replace("\r", " ") for _, line in lines if line.strip()]
    if delimiter == "auto":
        delimiter = _find_delimiter(texts[:_FIRST_LINES], len(columns) if columns else None)
        is_split = not texts or delimiter in texts[0] or '"' in texts[0]
        if columns is None and quotes == "auto" and not is_split:
            return _dialect_of_one_column(texts)
    if quotes != "auto":
        return Dialect(delimiter, quotes if isinstance(quotes, str) else '"' if quotes else None)
    if len(delimiter) > 1:
        return Dialect(delimiter, None)
    plain = Dialect(delimiter, None)
    possible = [Dialect(delimiter, quote) for quote in QUOTES if _begins_cells(texts, quote, delimiter)]
    broken = {dialect: _num_broken(lines, dialect) for dialect in (plain, *possible)}
    fewest = min(broken.values())
    for dialect in possible:
        if broken[dialect] == fewest and (
            fewest < broken[plain]
            or (delimiter == "," and dialect.quote == '"')
            or _are_needed(lines, texts, dialect)
        ):
            return dialect
    return Dialect(delimiter, '"') if delimiter == "," and not possible else plain


def _dialect_of_one_column(texts: list[str]) -> Dialect:
    """Returns the dialect of lines whose first has one cell: without quotes, no line is split."""
    if any(map(_ENCLOSED['"'].fullmatch, texts)):
        return Dialect(",", '"')
    return Dialect("\t" if not any("\t" in text for text in texts) else "\0", None)


def _find_delimiter(texts: list[str], width: int | None) -> str:
    """
    Returns the delimiter of which the most rows have as many cells as usual, by one of the quotes; of equal
    ones that without a blank behind it, as a comma has in prose, and then the first of `DELIMITERS`.
    """

    def agreement(delimiter: str) -> tuple[bool, float, float]:
        return max(_agreement(texts, delimiter, quote, width) for quote in QUOTES)

    best = max(DELIMITERS, key=agreement)
    return best if texts and agreement(best)[1] else ","


def _agreement(texts: list[str], delimiter: str, quote: str, width: int | None) -> tuple[bool, float, float]:
    if not texts or (quote != QUOTES[0] and not _begins_cells(texts, quote, delimiter)):
        return False, 0.0, 0.0
    with _long_cells():
        rows = [row for row in csv.reader(texts, delimiter=delimiter, quotechar=quote) if row]
    size, count = Counter(map(len, rows)).most_common(1)[0]
    fits = size == width or (width is None and len(rows[0]) > 1)
    followed = sum(cell.startswith(" ") for row in rows for cell in row[1:])
    return fits, count / len(rows) if size > 1 else 0.0, -followed / sum(map(len, rows))


def _begins_cells(texts: list[str], quote: str, delimiter: str) -> bool:
    return any(text.lstrip().startswith(quote) or f"{delimiter}{quote}" in text for text in texts)


def _num_broken(lines: NumberedLines, dialect: Dialect) -> int:
    """Counts the lines of rows that do not have the usual number of cells."""
    rows = list(split_rows(Path(), lines, dialect))
    sizes = Counter(len(row) for _, row in rows if not isinstance(row, InputError))
    usual = sizes.most_common(1)[0][0] if sizes else 0
    ends = [start for start, _ in rows[1:]] + [lines[-1][0] + 1 if lines else 0]
    return sum(
        end - start
        for (start, row), end in zip(rows, ends, strict=False)
        if isinstance(row, InputError) or len(row) < usual or any(row[usual:])
    )


def _are_needed(lines: NumberedLines, texts: list[str], dialect: Dialect) -> bool:
    delimiter, quote = dialect
    assert quote is not None
    enclosed = _ENCLOSED[quote].fullmatch
    rows = [row for _, row in split_rows(Path(), lines, dialect) if not isinstance(row, InputError)]
    if any(delimiter in cell or "\n" in cell for row in rows for cell in row):
        return True
    cells = [text.split(delimiter) for text in texts]
    if any(quote * 2 in cell[1:-1] and enclosed(cell) for row in cells for cell in row):
        return True
    columns = zip(*(row for row in cells if len(row) == len(cells[-1])), strict=True)
    return any(all(map(enclosed, column[1:] or column)) for column in columns)


def _lift_limit_of_cells() -> Callable[[], object]:
    return partial(csv.field_size_limit, csv.field_size_limit((1 << 31) - 1))


_long_cells = ChangeWhileUsed(_lift_limit_of_cells)
"""A long document has more characters than Python's default, 131,072."""
