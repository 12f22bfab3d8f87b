"""Records in JSON: JSON Lines, a list of objects, or `{"data": [...]}` as pandas and others write it."""

import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from elmo_tasks.data.input_files import InputError, Record, read_lines
from elmo_tasks.data.json_lines import parse_json, shorten_json

_DATA = "data"
_BEFORE_OBJECT, _BEFORE_KEY, _BEFORE_VALUE = map(re.compile, (r"[\s,\[]*", r"[\s,{]*", r"[\s:]*"))
_decode = json.JSONDecoder().raw_decode


def read_json_records(path: Path, *, encoding: str = "utf-8") -> Iterator[Record]:
    """
    Yields the objects of a file. It is a list, or an object with the list `data`, if its first line is not a
    whole object, or its only line is such an object; otherwise it has an object a line. A line that is no
    object is a damaged record.

    # Raises
    `InputError`, with the file and the line: a list that is no JSON or has other values than objects, and the
    errors of reading.
    """
    lines = (each for each in read_lines(path, encoding=encoding) if each[1].strip())
    first = list(zip(range(2), lines, strict=False))
    begin = [line for _, line in first]
    if begin and _is_object(begin[0][1]) and (len(begin) == 2 or _data(begin[0][1]) is None):
        for number, line in chain(begin, lines):
            try:
                yield Record(number, _object(path, number, parse_json(line, path, number, expected="JSON")))
            except InputError as error:
                yield Record(number, error)
    elif begin:
        yield from _listed(path, "\n".join(line for _, line in read_lines(path, encoding=encoding)))


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        # A damaged line of JSON Lines, too, unless it could be the begin of a longer value
        return re.fullmatch(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:.*\}\s*', line) is not None


def _data(text: str) -> int | None:
    """Returns the place of the list of objects `data` in the text of an object, if it has one."""
    place = 0
    try:
        while True:
            key, place = _decode(text, _end(_BEFORE_KEY, text, place))
            start = _end(_BEFORE_VALUE, text, place)
            value, place = _decode(text, start)
            if key == _DATA and isinstance(value, list) and all(isinstance(each, dict) for each in value):
                return start
    except (ValueError, RecursionError):
        return None


def _listed(path: Path, text: str) -> Iterator[Record]:
    whole = parse_json(text, path, 1, expected="JSON")
    place = 0
    if isinstance(whole, dict) and (start := _data(text)) is not None:
        whole, place = whole[_DATA], start
    if not isinstance(whole, list):
        expected = 'an object a line, a list of objects, or {"data": [...]}'
        raise InputError.at(path, found=shorten_json(whole), expected=expected)
    # Parses each object once more, since the parser of the list does not tell where it starts.
    line = 1 + text.count("\n", 0, place)
    for _ in whole:
        start = _end(_BEFORE_OBJECT, text, place)
        line += text.count("\n", place, start)
        value, place = _decode(text, start)
        yield Record(line, _object(path, line, value))
        line += text.count("\n", start, place)


def _end(separator: re.Pattern[str], text: str, place: int) -> int:
    return separator.match(text, place).end()  # type: ignore[union-attr]


def _object(path: Path, line: int, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError.at(path, line, found=shorten_json(value), expected="a JSON object")
    return value
