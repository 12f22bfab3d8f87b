"""
Records of a file in whichever format it is: Parquet, JSON, or columns between delimiters.

spaCy's training data have pairs in place of JSON objects, `["TEXT", {"entities": [...]}]`. Parquet, which may
name the classes of its numbers, needs pyarrow. In columns with quotes, a cell with delimiters or line breaks
is enclosed in `"`, and `""` is a quote in it (RFC 4180).
"""

import csv
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from elmo_tasks.common.errors import errors_as
from elmo_tasks.common.machine import ChangeWhileUsed
from elmo_tasks.data.input_files import (
    FileSample,
    InputError,
    Record,
    nonblank_lines,
    parse_json,
    read_lines,
    shorten,
    shorten_json,
    value_or_error,
)

logger = logging.getLogger(__name__)

ANSWER = "answer"
"""The field with the decision of Prodigy's annotators."""
DELIMITERS = ("\t", ",", ";", "|")
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


class Dialect(NamedTuple):
    """The delimiter, and whether quotes have a meaning."""

    delimiter: str
    quotes: bool


def read_delimited(
    path: Path, layout: DelimitedLayout = AUTO, *, encoding: str | None = None
) -> Iterator[Record]:
    """
    Yields the records of a file. Without names in the layout, the first row has the names. Empty rows, and
    empty cells at the end of a row, are left out. Columns without a name have no values in a record; a
    warning counts the texts in those at the end. A row with another number of columns is a damaged record; a
    quote that is not closed, or a column that the header has twice, is an `InputError`.
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
            yield Record(path, line, InputError(what, where=path, line=line))
            continue
        if any(row[num_named:]):
            unnamed.append(line)
        yield Record(path, line, {name: row[index] for index, name in named_columns})
    if unnamed:
        message = "%s, line %d: text after the last column with a name is not read (such rows: %d)"
        logger.warning(message, path, unnamed[0], len(unnamed))


def read_rows(path: Path, layout: DelimitedLayout = AUTO, *, encoding: str | None = None) -> Rows:
    """Yields the rows of a file with its header; see `read_delimited`."""
    lines = delimited_lines(path, encoding)
    dialect = _find_dialect(lines, layout)
    if dialect.quotes:
        return _quoted_rows(path, lines, dialect.delimiter)
    return ((line_number, line.split(dialect.delimiter)) for line_number, line in lines if line.strip())


def dialect_of(path: Path, layout: DelimitedLayout, *, encoding: str | None) -> Dialect:
    """Returns the dialect of a file."""
    return _find_dialect(delimited_lines(path, encoding), layout)


def delimited_lines(path: Path, encoding: str | None = None) -> list[tuple[int, str]]:
    """Returns the numbered lines without Excel's first line, which has the delimiter."""
    lines = list(read_lines(path, encoding=encoding))
    first = 1 if lines and _SEPARATOR.fullmatch(lines[0][1]) else 0
    return [(line_number, line.rstrip(" ")) for line_number, line in lines[first:]]


def _find_dialect(lines: Sequence[tuple[int, str]], layout: DelimitedLayout) -> Dialect:
    columns, delimiter, quotes = layout
    # A carriage return in a cell that has no quotes is an error of `csv`.
    texts = [line.replace("\r", " ") for _, line in lines if line.strip()]
    if delimiter == "auto":
        delimiter = _find_delimiter(texts[:_SAMPLE], len(columns) if columns else None)
    if quotes == "auto":
        quotes = delimiter == "," or (len(delimiter) == 1 and _needs_quotes(lines, texts, delimiter))
    return Dialect(delimiter, quotes)


def _find_delimiter(texts: list[str], width: int | None) -> str:
    def agreement(delimiter: str) -> tuple[bool, float]:
        with _long_cells():
            sizes = [len(row) for row in csv.reader(texts, delimiter=delimiter) if row]
        size, count = Counter(sizes).most_common(1)[0]
        return size == width or (width is None and sizes[0] > 1), count / len(sizes) if size > 1 else 0

    # The first of equals
    return max(DELIMITERS, key=agreement) if texts else ","


def _needs_quotes(lines: Sequence[tuple[int, str]], texts: list[str], delimiter: str) -> bool:
    if not any(text.startswith('"') or f'{delimiter}"' in text for text in texts):
        return False
    try:
        rows = [row for _, row in _quoted_rows(Path(), lines, delimiter)]
    except InputError:
        return False
    if len({len(row) for row in rows}) != 1:
        return False
    return (
        all(re.fullmatch('".*"', cell) for cell in texts[0].split(delimiter))
        or any(delimiter in cell or "\n" in cell for row in rows for cell in row)
        or any(_DOUBLED.fullmatch(cell) for text in texts if '""' in text for cell in text.split(delimiter))
    )


def _quoted_rows(path: Path, lines: Sequence[tuple[int, str]], delimiter: str) -> Rows:
    texts = (f"{line}\n" for _, line in lines)
    rows = csv.reader(texts, delimiter=delimiter, strict=True, skipinitialspace=True)
    start = 0
    with _long_cells():
        try:
            for row in rows:
                if any(map(str.strip, row)):
                    yield lines[start][0], row
                start = rows.line_num
        except csv.Error as error:
            raise InputError(f"not csv ({error})", where=path, line=lines[start][0]) from error


def _lift_limit_of_cells() -> Callable[[], object]:
    return partial(csv.field_size_limit, csv.field_size_limit((1 << 31) - 1))


_long_cells = ChangeWhileUsed(_lift_limit_of_cells)
"""A long document has more characters than Python's default, 131,072."""


# JSON

_DATA, _ANNOTATIONS = "data", "annotations"
_BEFORE_ITEM, _BEFORE_KEY, _BEFORE_VALUE = map(re.compile, (r"[\s,]*", r"[\s,{]*", r"[\s:]*"))
_decode = json.JSONDecoder().raw_decode


def read_json_records(path: Path, *, encoding: str | None = None) -> Iterator[Record]:
    """
    Yields the objects of a file, which has one a line, or is a list, or an object with the list `data` or
    `annotations`. A line, or an item, that is not an object is a damaged record. A pair of a text and an
    object is the object with `text`. A list of several lines that is not JSON is an `InputError`.
    """
    lines = nonblank_lines(path, encoding)
    begin = list(islice(lines, 2))
    if len(begin) == 2 and not _is_object(begin[0][1]):
        yield from _listed(path, "\n".join(line for _, line in read_lines(path, encoding=encoding)))
        return
    for line_number, line in chain(begin, lines):
        value = value_or_error(path, line_number, parse_json, line, path, line_number)
        items = _list_in(value) if len(begin) == 1 else None
        for each in [value] if items is None else items[1]:
            yield _record(path, line_number, each)


def _is_object(line: str) -> bool:
    try:
        value = json.loads(line)
        return isinstance(value, dict) or _is_pair(value)
    except (ValueError, RecursionError):
        # A damaged line of JSON Lines, too, unless it could be the start of a longer value
        return re.fullmatch(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:.*\}\s*', line) is not None


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and [type(each) for each in value] == [str, dict]


def _list_in(value: Any) -> tuple[str, list[Any]] | None:
    """Returns the list of records that a value is or has, and its key, if it has a list."""
    if isinstance(value, list) and not _is_pair(value):
        return "", value
    for key, items in value.items() if isinstance(value, dict) else ():
        if isinstance(items, list) and (
            (key == _DATA and all(isinstance(each, dict) for each in items))
            or (key == _ANNOTATIONS and any(map(_is_pair, items)))
        ):
            return key, items
    return None


def _listed(path: Path, text: str) -> Iterator[Record]:
    whole = parse_json(text, path, 1)
    if (found := _list_in(whole)) is None:
        expected = 'an object a line, a list of objects, or {"data": [...]}'
        raise InputError(f"{shorten_json(whole)} is not {expected}", where=path)
    key, items = found
    # Parses each object once more, since the parser of the list does not tell where it starts.
    position = text.index("[", _start_of(text, key) if key else 0) + 1
    line = 1 + text.count("\n", 0, position)
    for item in items:
        start = _end(_BEFORE_ITEM, text, position)
        line += text.count("\n", position, start)
        _, position = _decode(text, start)
        yield _record(path, line, item)
        line += text.count("\n", start, position)


def _start_of(text: str, key: str) -> int:
    """Returns the position of a value of an object."""
    position = 0
    while True:
        name, position = _decode(text, _end(_BEFORE_KEY, text, position))
        start = _end(_BEFORE_VALUE, text, position)
        if name == key:
            return start
        _, position = _decode(text, start)


def _end(separator: re.Pattern[str], text: str, position: int) -> int:
    return separator.match(text, position).end()  # type: ignore[union-attr]


def _record(path: Path, line: int, value: Any) -> Record:
    if _is_pair(value):
        text, annotations = value
        value = {"text": text, **annotations}
    if not isinstance(value, dict | InputError):
        value = InputError(f"{shorten_json(value)} is not a JSON object", where=path, line=line)
    return Record(path, line, value)


# Parquet

MAGIC = b"PAR1"
_SCHEMA = b"huggingface"
_ROWS = 1024


def read_parquet(path: Path) -> Iterator[Record]:
    """Yields the rows of a file, numbered from 1. `InputError`: pyarrow is missing, or cannot read it."""
    pyarrow, file = _open(path)
    row_number = 0
    with file:
        try:
            for batch in file.iter_batches(batch_size=_ROWS):
                for row_number, values in enumerate(batch.to_pylist(), start=row_number + 1):  # noqa: B020
                    yield Record(path, row_number, values)
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"not a row of Parquet: {error}", where=path, line=row_number + 1) from error


def class_names(path: Path) -> dict[str, list[str]]:
    """Returns the names of the classes in columns of numbers, which `datasets` writes into the schema."""
    _, file = _open(path)
    with file:
        schema = json.loads((file.schema_arrow.metadata or {}).get(_SCHEMA, b"{}"))
    features = schema.get("info", {}).get("features", {})
    return {column: names for column, feature in features.items() if (names := _names(feature))}


def _names(feature: Any) -> list[str] | None:
    if isinstance(feature, list):
        return _names(feature[0]) if feature else None
    if not isinstance(feature, dict):
        return None
    return feature["names"] if isinstance(feature.get("names"), list) else _names(feature.get("feature"))


def _open(path: Path) -> tuple[Any, Any]:
    remedy = "pip install pyarrow"
    with errors_as(InputError, "Parquet needs pyarrow", ImportError, where=path, remedy=remedy):
        import pyarrow
        from pyarrow import parquet
    with errors_as(InputError, "not Parquet", (pyarrow.ArrowException, OSError), where=path):
        return pyarrow, parquet.ParquetFile(path)


# Any of them

RecordFormat = Literal["parquet", "json", "delimited"]
_JSON = re.compile(r'\s*(?:\{\s*(?:"|\}|$)|\[\s*(?:\{|\]|$|\[\s*"|"(?:[^"\\]|\\.)*"\s*,\s*\{))')


def read_records(
    path: Path,
    format: RecordFormat | None = None,
    layout: DelimitedLayout = AUTO,
    *,
    encoding: str | None = None,
) -> Iterator[Record]:
    """Yields the records of a file, by default of its `record_format`; `layout` is for a delimited one."""
    format = format or record_format(path, encoding=encoding)
    if format == "parquet":
        return read_parquet(path)
    if format == "json":
        return read_json_records(path, encoding=encoding)
    return read_delimited(path, layout, encoding=encoding)


def first_values(sample: FileSample) -> dict[str, Any]:
    """Returns the values of the first record of JSON or Parquet; none of other data, or of a damaged one."""
    with suppress(InputError):
        if record_format(sample.files[0], encoding=sample.encoding) != "delimited":
            record = next(read_records(sample.files[0], encoding=sample.encoding), None)
            return record.values if record else {}
    return {}


def is_rejected(values: Mapping[str, Any]) -> bool:
    """Tells whether the annotators of Prodigy have rejected or ignored a record."""
    return values.get(ANSWER) in ("reject", "ignore")


def record_format(path: Path, *, encoding: str | None = None) -> RecordFormat:
    """Returns the format of a file, by its first bytes or line."""
    if is_parquet(path):
        return "parquet"
    first = next((line for _, line in nonblank_lines(path, encoding)), "")
    return "json" if _JSON.match(first) else "delimited"


def is_parquet(path: Path) -> bool:
    """Tells whether a file is Parquet, by its first bytes; `False` if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
