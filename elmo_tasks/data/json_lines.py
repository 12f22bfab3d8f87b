"""JSON in files: errors name the file, the line and the column."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from elmo_tasks.common import strict_json
from elmo_tasks.data.input_files import InputError, read_lines


def parse_json(text: str, path: str | Path, line: int, *, expected: str = "a JSON object") -> Any:
    """
    The value of a text that starts in line `line` of the file `path`.

    # Raises
    `InputError`, with the file and the line: the text is no JSON, see `strict_json.loads`.
    """
    try:
        return strict_json.loads(text)
    except json.JSONDecodeError as error:
        found = f"no JSON ({error.msg}, column {error.colno})"
        raise InputError.at(path, line + error.lineno - 1, found=found, expected=expected) from error


def read_json(path: Path, *, expected: str = "a JSON object") -> Any:
    """
    The value of a whole file, plain or gzip.

    # Raises
    `InputError`: see `parse_json` and `read_lines`.
    """
    return parse_json("\n".join(line for _, line in read_lines(path)), path, 1, expected=expected)


def read_json_lines(
    path: Path, lines: Iterable[tuple[int, str]] | None = None, *, expected: str = "a JSON object"
) -> Iterator[tuple[int, Any]]:
    """
    The value of each line of a file, and the line's number. Blank lines are passed over.

    # Parameters

    lines : the numbered lines; by default those of the whole file.

    # Raises
    `InputError`: see `parse_json` and `read_lines`.
    """
    for number, line in read_lines(path) if lines is None else lines:
        if line.strip():
            yield number, parse_json(line, path, number, expected=expected)


def shorten(text: str, length: int = 80) -> str:
    """The begin of a long text, with three dots behind it."""
    return text if len(text) <= length else f"{text[:length]}..."


def printable(text: str) -> str:
    """A text that any file can hold: what is no character, such as half of a surrogate pair, is escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shorten_json(value: object, length: int = 80) -> str:
    """A value as JSON, shortened."""
    return shorten(json.dumps(value, ensure_ascii=False), length)
