"""Files of JSON Lines, plain or packed, at paths and URLs: a record for each line."""

import os
from collections.abc import Iterable, Iterator

from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.predictors import Predictor

from elmo_tasks.common.files import UNREADABLE, decompressed, local_or_bundled, raw_lines
from elmo_tasks.data.input_files import InputError, printable, shorten, standard_input
from elmo_tasks.pipeline.predictor import InputRecord, attempt


def read_json_records(
    predictor: Predictor, lines: Iterable[bytes], source: str | None, *, before: int = 0
) -> Iterator[InputRecord]:
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
                yield InputRecord(attempt(lambda line: predictor.load_line(_decoded(line)), line), where())
    except UNREADABLE as error:
        number += 1
        yield InputRecord(ConfigurationError(str(error)), where())


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        text = shorten(printable(line.decode("utf-8", "surrogateescape").strip()))
        raise ConfigurationError(
            f"the byte 0x{line[error.start]:02x} at offset {error.start} is not UTF-8: {text}"
        ) from error


def read_file(predictor: Predictor, path: str) -> Iterator[InputRecord]:
    """Yields the records of a file, plain or packed, of a URL, or of standard input for `-`."""
    return read_json_records(predictor, open_lines(path), None if path == "-" else path)


def open_lines(path: str) -> Iterator[bytes]:
    """Yields the lines of a file, plain or packed, of a URL, or of standard input for `-`."""
    if path == "-":
        yield from raw_lines(standard_input())
    else:
        with open(json_lines_file(path), "rb") as file:
            yield from raw_lines(decompressed(file))


def json_lines_file(path: str) -> str:
    """Returns the local file of a path or URL. `FileNotFoundError`: there is none; `InputError`: a folder."""
    file = str(cached_path(local_or_bundled(path)))
    if os.path.isdir(file):
        raise InputError(f"{path} is a folder, not a file of JSON Lines")
    return file
