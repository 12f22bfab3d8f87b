"""JSON in files. Errors name the file, the line and the column."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from elmo_tasks.common import strict_json
from elmo_tasks.data.input_files import InputError, read_lines


def parse_json(text: str, path: str | Path, line: int, *, expected: str = "a JSON object") -> Any:
    """
    Returns the value of a text that starts in line `line` of the file `path`.

    # Raises
    `InputError`, with the file and the line: the text is not JSON, see `strict_json.loads`.
    """
    try:
        return strict_json.loads(text)
    except json.JSONDecodeError as error:
        found = f"no JSON ({error.msg}, column {error.colno})"
        raise InputError.at(path, line + error.lineno - 1, found=found, expected=expected) from error


def read_json(path: Path, *, expected: str = "a JSON object", encoding: str = "utf-8") -> Any:
    """
    Returns the value of a whole file, plain or gzip.

    # Raises
    `InputError`: see `parse_json` and `read_lines`.
    """
    return parse_json(
        "\n".join(line for _, line in read_lines(path, encoding=encoding)), path, 1, expected=expected
    )


def read_json_lines(
    path: Path, lines: Iterable[tuple[int, str]] | None = None, *, expected: str = "a JSON object"
) -> Iterator[tuple[int, Any]]:
    """
    Yields the number and the value of each line that is not blank.

    # Parameters

    lines : the numbered lines of the file that are read; by default all of them.

    # Raises
    `InputError`: see `parse_json` and `read_lines`.
    """
    for number, line in read_lines(path) if lines is None else lines:
        if line.strip():
            yield number, parse_json(line, path, number, expected=expected)


def shorten(text: str, length: int = 80) -> str:
    """Returns the start of a long text, followed by three dots."""
    return text if len(text) <= length else f"{text[:length]}..."


def shorten_json(value: object, length: int = 80) -> str:
    """Returns a value as JSON, shortened."""
    return shorten(json.dumps(value, ensure_ascii=False), length)


def printable(text: str) -> str:
    """Returns a text that any file can hold: surrogates, which are not characters, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
