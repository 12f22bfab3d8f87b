"""
Records of a file in whichever format it is: Parquet, JSON, or columns between delimiters.

spaCy's training data have pairs in place of JSON objects, `["TEXT", {"entities": [...]}]`. Parquet, which may
name the classes of its numbers, needs pyarrow.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from elmo_tasks.common.errors import errors_as
from elmo_tasks.data.formats.delimited import AUTO, DelimitedLayout, read_delimited
from elmo_tasks.data.input_files import (
    InputError,
    Record,
    nonblank_lines,
    parse_json,
    read_lines,
    shorten_json,
    value_or_error,
)

ANSWER = "answer"
"""The field with the decision of Prodigy's annotators."""
DECISIONS = {"reject": "rejected", "ignore": "ignored"}
"""The decisions by which a record is left out."""

# JSON

_LISTS = ("data", "rows", "records", "examples", "sentences", "common_examples")
"""The names of the lists of records in an object."""
_PAIRS, _RASA = "annotations", "rasa_nlu_data"
_ROW, _ROW_NUMBER = "row", "row_idx"
"""The fields of a row in an answer of Hugging Face's server."""
_BEFORE_ITEM = re.compile(r"[\s,]*")
_decode = json.JSONDecoder().raw_decode


def read_json_records(path: Path, *, encoding: str | None = None) -> Iterator[Record]:
    """
    Yields the objects of a file, which has one a line, or is a list, or an object with a list, such as `data`
    or `rows`. A line, or an item, that is not an object is a damaged record. A pair of a text and an object
    is the object with `text`. A list of several lines that is not JSON is an `InputError`.
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
    """Returns the list of records that a value is or has, and its key, empty if it is the list."""
    if isinstance(value, list) and not _is_pair(value):
        return "", value
    for key, items in value.items() if isinstance(value, dict) else ():
        if key == _RASA and (found := _list_in(items)):
            return found
        if isinstance(items, list) and (
            (key in _LISTS and all(isinstance(each, dict) for each in items))
            or (key == _PAIRS and any(map(_is_pair, items)))
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
    places = re.finditer(rf'"{key}"\s*:\s*\[' if key else r"\[", text)
    position = next(place.end() for place in places if len(_decode(text, place.end() - 1)[0]) == len(items))
    line = 1 + text.count("\n", 0, position)
    for item in items:
        start = _BEFORE_ITEM.match(text, position).end()  # type: ignore[union-attr]
        line += text.count("\n", position, start)
        _, position = _decode(text, start)
        yield _record(path, line, item)
        line += text.count("\n", start, position)


def _record(path: Path, line: int, value: Any) -> Record:
    if _is_pair(value):
        text, annotations = value
        value = {"text": text, **annotations}
    elif isinstance(value, dict) and _ROW_NUMBER in value and isinstance(value.get(_ROW), dict):
        value = value[_ROW]
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


def is_rejected(values: Mapping[str, Any], label: str | None = None) -> bool:
    """Tells whether Prodigy's annotators ignored a record, or rejected it where this is not its label."""
    return values.get(ANSWER) in ("ignore", "" if label == ANSWER else "reject")


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
