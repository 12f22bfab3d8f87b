"""Records to predict, each with its place or its error, and the files of JSON Lines that they come from."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.common.files import UNREADABLE, local_or_bundled, raw_lines, unpacked
from elmo_tasks.data.input_files import InputError, printable, shorten, standard_input

Result: TypeAlias = JsonDict | Exception
"""The value of a record, or its error."""


class Record(NamedTuple):
    """One thing to predict: a JSON object, or an instance of a dataset reader, or the error of reading it."""

    content: JsonDict | Instance | Exception
    where: str = ""
    """The place that errors name, such as a file and a line; empty if there is none."""


def attempt(function: Callable[[Any], Any], content: Any) -> Any:
    """Returns `function(content)`, or the error that it raises. A content that is an error stays as it is."""
    if isinstance(content, Exception):
        return content
    try:
        return function(content)
    except Exception as error:
        return error


def located(result: Result, where: str) -> Result:
    """Returns a result; of an error with a place, a `ConfigurationError` that names it."""
    if not (where and isinstance(result, Exception)):
        return result
    text = str(result) if isinstance(result, ConfigurationError) else f"{type(result).__name__}: {result}"
    error = ConfigurationError(f"{where}: {text}")
    error.__cause__ = result
    return error


def value_of(result: Result) -> JsonDict:
    """Returns the value of a result, or raises its error."""
    if isinstance(result, Exception):
        raise result
    return result


def read_records(
    predictor: Predictor, lines: Iterable[bytes], source: str | None, *, before: int = 0
) -> Iterator[Record]:
    """
    Yields a record for each line that is not blank.

    # Parameters

    predictor : its `load_line` makes the object of a line.
    source : the file that errors name; without one, blank lines are not counted.
    before : the number of lines before the first.
    """
    number = before

    def where() -> str:
        return f"{source}, line {number}" if source else f"line {number} (blank lines not counted)"

    try:
        for line in lines:
            is_blank = not line.decode("utf-8", "replace").strip()
            number += not is_blank or source is not None
            if not is_blank:
                yield Record(attempt(lambda line: predictor.load_line(_decoded(line)), line), where())
    except UNREADABLE as error:
        number += 1
        yield Record(ConfigurationError(str(error)), where())


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        text = shorten(printable(line.decode("utf-8", "surrogateescape").strip()))
        raise ConfigurationError(
            f"the byte 0x{line[error.start]:02x} at offset {error.start} is not UTF-8: {text}"
        ) from error


def read_file(predictor: Predictor, path: str) -> Iterator[Record]:
    """Yields the records of a file, plain or packed, of a URL, or of standard input for `-`."""
    return read_records(predictor, open_lines(path), None if path == "-" else path)


def open_lines(path: str) -> Iterator[bytes]:
    """Yields the lines of a file, plain or packed, of a URL, or of standard input for `-`."""
    if path == "-":
        yield from raw_lines(standard_input())
    else:
        with open(json_lines_file(path), "rb") as file:
            yield from raw_lines(unpacked(file))


def json_lines_file(path: str) -> str:
    """Returns the local file of a path or URL. `FileNotFoundError`: there is none; `InputError`: a folder."""
    file = str(cached_path(local_or_bundled(path)))
    if os.path.isdir(file):
        raise InputError(f"{path} is a folder, not a file of JSON Lines")
    return file
