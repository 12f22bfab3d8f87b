"""
Records with named columns, from text files.

- `csv`: fields between commas, `"` around a field with commas or line breaks, `""` for a quote in it (RFC
  4180). `tsv`: a record a line, fields between tabs, quotes being text like any other. The names of the
  columns are given, or stand in the first line.
- `json`: a list of objects. `jsonl`: an object a line. Their keys are the columns.
- `text`: a record a line, its one column is `text`. `document`: a record a file, of the same column.

Empty lines are passed over.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.data.json_lines import parse_json, read_json_lines, shorten_json

Columns = Sequence[str] | None

_BETWEEN = re.compile(r"\s*[\[,]\s*")
"""What stands before each object of a list."""
_LONGEST_FIELD = (1 << 31) - 1
"""Characters of a csv; Python's default, 131,072, is less than a long document."""


class Record(NamedTuple):
    """What stands in the columns of a record, and the line where it begins."""

    line: int
    values: dict[str, Any]


def read_records(path: Path, format: str, columns: Columns) -> Iterator[Record]:
    """
    # Parameters

    format : a key of `FORMATS`.
    columns : names of the columns of a csv or tsv file without a header; `None`: the first line has them.

    # Raises
    `InputError`, with file and line: what is not of the format, another number of columns, a column twice,
    and whatever `read_lines` raises.
    """
    return FORMATS[format](path, columns)


def _csv(path: Path, columns: Columns) -> Iterator[Record]:
    return _named(path, _csv_rows(path), columns)


def _tsv(path: Path, columns: Columns) -> Iterator[Record]:
    rows = ((number, line.split("\t")) for number, line in read_lines(path) if line)
    return _named(path, rows, columns)


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(_LONGEST_FIELD)
    rows = csv.reader((f"{line}\n" for _, line in read_lines(path)), strict=True)
    while True:
        first = rows.line_num + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError.at(path, first, found=f"no csv ({error})", expected="csv") from error
        if row:
            yield first, row


def _named(path: Path, rows: Iterator[tuple[int, list[str]]], columns: Columns) -> Iterator[Record]:
    if columns is None:
        line, columns = next(rows, (1, []))
        for name in columns:
            if columns.count(name) > 1:
                raise InputError.at(path, line, found=f"the column {name!r} twice", expected="a header")
    for line, row in rows:
        if len(row) != len(columns):
            expected = f"{len(columns)}: {', '.join(columns)}"
            raise InputError.at(path, line, found=f"{len(row)} columns", expected=expected)
        yield Record(line, dict(zip(columns, row, strict=True)))


def _json(path: Path, _: Columns) -> Iterator[Record]:
    text = "\n".join(line for _, line in read_lines(path))
    whole = parse_json(text, path, 1, expected="JSON")
    if not isinstance(whole, list):
        raise InputError.at(path, found=f"a {type(whole).__name__}", expected="a list of JSON objects")
    # Once more one by one: the parser does not tell where each of them begins.
    line, place, decoder = 1, 0, json.JSONDecoder()
    for _ in whole:
        start = _BETWEEN.match(text, place).end()  # type: ignore[union-attr]
        line += text.count("\n", place, start)
        value, place = decoder.raw_decode(text, start)
        yield Record(line, _object(path, line, value))
        line += text.count("\n", start, place)


def _jsonl(path: Path, _: Columns) -> Iterator[Record]:
    for number, value in read_json_lines(path, expected="JSON"):
        yield Record(number, _object(path, number, value))


def _text(path: Path, _: Columns) -> Iterator[Record]:
    return (Record(number, {"text": line}) for number, line in read_lines(path) if line.strip())


def _document(path: Path, _: Columns) -> Iterator[Record]:
    lines = [line for _, line in read_lines(path)]
    if any(map(str.strip, lines)):
        yield Record(1, {"text": "\n".join(lines)})


def _object(path: Path, line: int, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError.at(path, line, found=shorten_json(value), expected="a JSON object")
    return value


FORMATS: dict[str, Callable[[Path, Columns], Iterator[Record]]] = {
    "csv": _csv,
    "tsv": _tsv,
    "json": _json,
    "jsonl": _jsonl,
    "text": _text,
    "document": _document,
}
