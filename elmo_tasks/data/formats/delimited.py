"""
Records with named columns between delimiters: csv, tsv and their like.

With quotes, a cell with delimiters or line breaks is enclosed in `"`, and `""` is a quote in it (RFC 4180).
"""

import csv
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from elmo_tasks.data.input_files import InputError, Record, read_lines, shorten

logger = logging.getLogger(__name__)

DELIMITERS = ("\t", ",", ";", "|")
_MAX_FIELD = (1 << 31) - 1
"""Characters of a csv field; Python's default, 131,072, is less than a long document."""
_SAMPLE = 100
_SEPARATOR = re.compile("sep=.")
_DOUBLED = re.compile(r'"(?:[^"]|"")*""(?:[^"]|"")*"')
"""A whole cell with a doubled quote in it."""

Rows = Iterator[tuple[int, list[str]]]
"""The cells of each row that is not empty, and the line at which it starts."""


class DelimitedLayout(NamedTuple):
    """The columns and the dialect of a file, as far as the reader gives them."""

    columns: Sequence[str] | None = None
    """The names of the columns, where the file has no header."""
    delimiter: str = "auto"
    """`auto` takes the mark of `DELIMITERS` that splits most rows into as many cells as the first."""
    quotes: bool | Literal["auto"] = "auto"
    """
    With `auto`, quotes have a meaning between commas; elsewhere if all rows have as many cells by them, and
    they are needed: for a delimiter, a line break or a doubled quote in a cell, or around each cell of the
    first row.
    """


AUTO = DelimitedLayout()
"""Everything is found from the file."""


class Dialect(NamedTuple):
    """The delimiter, and whether quotes have a meaning."""

    delimiter: str
    quotes: bool


def read_delimited(
    path: Path, layout: DelimitedLayout = AUTO, *, encoding: str | None = None
) -> Iterator[Record]:
    """
    Yields the records of a file. Without names in the layout, the first row has the names. Rows of blanks and
    empty cells, empty cells at the end of a row, and blanks around names and at the end of a row are left
    out. Columns without a name have no values in a record; text in those at the end is counted, and the log
    warns of it.

    # Raises
    `InputError`, with file and line: a quote is not closed, or the header has a column twice; and see
    `read_lines`. A row with another number of columns is a damaged record.
    """
    rows, columns = read_rows(path, layout, encoding=encoding), layout.columns
    if columns is None:
        header, columns = next(rows, (1, []))
        columns = [name.strip() for name in columns]
        for name in columns:
            if name and columns.count(name) > 1:
                raise InputError(f"the header has the column {name!r} twice", where=path, line=header)
    num_named = max((count for count, name in enumerate(columns, start=1) if name), default=0)
    named_columns = [(index, name) for index, name in enumerate(columns) if name]
    unnamed: list[int] = []
    for line, row in rows:
        if not num_named <= len(row) or any(row[len(columns) :]):
            what = f"there are {len(row)} columns, not {len(columns)}: {shorten(', '.join(columns), 200)}"
            error = InputError(what, where=path, line=line)
            yield Record(path, line, error)
            continue
        if any(row[num_named:]):
            unnamed.append(line)
        yield Record(path, line, {name: row[index] for index, name in named_columns})
    if unnamed:
        logger.warning(
            "%s, line %d: text after the last column with a name is not read (such rows: %d)",
            path,
            unnamed[0],
            len(unnamed),
        )


def read_rows(path: Path, layout: DelimitedLayout = AUTO, *, encoding: str | None = None) -> Rows:
    """Yields the rows of a file with its header; see `read_delimited`."""
    lines = delimited_lines(path, encoding)
    dialect = _find_dialect(lines, layout)
    return (_quoted_rows if dialect.quotes else _plain_rows)(path, lines, dialect.delimiter)


def dialect_of(path: Path, layout: DelimitedLayout, *, encoding: str | None) -> Dialect:
    """Returns the dialect of a file."""
    return _find_dialect(delimited_lines(path, encoding), layout)


def delimited_lines(path: Path, encoding: str | None = None) -> list[tuple[int, str]]:
    """
    Returns the numbered lines. A carriage return ends a line where nothing else does, as in Excel's csv for
    Macintosh; Excel's first line with the delimiter is left out.
    """
    lines = list(read_lines(path, encoding=encoding))
    if len(lines) == 1:
        lines = list(enumerate(lines[0][1].removesuffix("\r").split("\r"), start=1))
    first = 1 if lines and _SEPARATOR.fullmatch(lines[0][1]) else 0
    return [(line_number, line.rstrip(" ")) for line_number, line in lines[first:]]


def _find_dialect(lines: Sequence[tuple[int, str]], layout: DelimitedLayout) -> Dialect:
    columns, delimiter, quotes = layout
    # A carriage return in a cell that has no quotes is an error of `csv`.
    texts = [line.replace("\r", " ") for _, line in lines if line.strip()]
    if delimiter == "auto":
        delimiter = _find_delimiter(texts[:_SAMPLE], len(columns) if columns else None)
    if quotes == "auto":
        quotes = delimiter == "," or (len(delimiter) == 1 and _needs_quotes(texts, delimiter))
    return Dialect(delimiter, quotes)


def _find_delimiter(texts: list[str], width: int | None) -> str:
    def agreement(delimiter: str) -> tuple[bool, float]:
        sizes = [len(row) for row in csv.reader(texts, delimiter=delimiter) if row]
        size, count = Counter(sizes).most_common(1)[0]
        return size == width or (width is None and sizes[0] > 1), count / len(sizes) if size > 1 else 0

    csv.field_size_limit(_MAX_FIELD)
    # The first of equals
    return max(DELIMITERS, key=agreement) if texts else ","


def _needs_quotes(texts: list[str], delimiter: str) -> bool:
    if not any(text.startswith('"') or f'{delimiter}"' in text for text in texts):
        return False
    csv.field_size_limit(_MAX_FIELD)
    try:
        rows = list(csv.reader((f"{text}\n" for text in texts), delimiter=delimiter, strict=True))
    except csv.Error:
        return False
    if len({len(row) for row in rows}) != 1:
        return False
    return (
        all(re.fullmatch('".*"', cell) for cell in texts[0].split(delimiter))
        or any(delimiter in cell or "\n" in cell for row in rows for cell in row)
        or any(_DOUBLED.fullmatch(cell) for text in texts if '""' in text for cell in text.split(delimiter))
    )


def _quoted_rows(path: Path, lines: Sequence[tuple[int, str]], delimiter: str) -> Rows:
    csv.field_size_limit(_MAX_FIELD)
    texts = (f"{line}\n" for _, line in lines)
    rows = csv.reader(texts, delimiter=delimiter, strict=True, skipinitialspace=True)
    while True:
        start = rows.line_num
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"not csv ({error})", where=path, line=lines[start][0]) from error
        if any(map(str.strip, row)):
            yield lines[start][0], row


def _plain_rows(path: Path, lines: Sequence[tuple[int, str]], delimiter: str) -> Rows:
    return ((line_number, line.split(delimiter)) for line_number, line in lines if line.strip())
