"""The interface of a format, and the sample of data that a format is detected by."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from elmo_tasks.common.files import UNREADABLE
from elmo_tasks.data.fields import ids_of
from elmo_tasks.data.input_files import (
    InputError,
    Record,
    input_files,
    likely_encoding,
    nonblank_lines,
)

Made = TypeVar("Made")

SAMPLE = 1000
"""The number of lines by which a format is detected."""
POSSIBLE, LIKELY, CERTAIN = 0.3, 0.6, 0.9
"""
Evidence for a format: the data can be read so, as much else can; most data of this shape are of it; or they
have a mark that no other format has. 0 is a format that cannot read them.
"""


class FileSample(NamedTuple):
    """The first lines of data of an unknown format."""

    files: list[Path]
    encoding: str
    lines: list[str]
    """Lines of the first file that are not blank; none if it is not a text."""


class Format(NamedTuple):
    """
    A format of files with one kind of record, such as sentences with entities.

    `detect` returns the evidence, from 0 to 1, that a sample is of the format. It opens files, and raises no
    error. `read` yields the records of a file; its other arguments are the same for all formats of a kind.
    """

    name: str
    """The value of a reader's key `format`."""
    detect: Callable[[FileSample], float]
    read: Callable[..., Iterator[Any]]


class Finding(NamedTuple):
    """What data of an unknown format are for a reader."""

    evidence: float
    """As `Format.detect` returns it."""
    keys: dict[str, Any] | None = None
    """The keys with which the reader reads the data; `None` if it cannot."""
    problem: InputError | None = None
    """Why it cannot read data that look like its own."""

    def candidates(self) -> Iterator[dict[str, Any]]:
        """Yields the keys, see `TaskReader.candidates`; the problem is raised."""
        if self.problem is not None:
            raise self.problem
        if self.keys is not None:
            yield self.keys


def sample_of(path: str | list[str]) -> FileSample:
    """Returns the first lines of data; without a file it is an `InputError`."""
    files = input_files(path)
    encoding, lines = "utf-8", []
    with suppress(InputError, *UNREADABLE):
        encoding = likely_encoding(files[0]) or "utf-8"
        lines = [line for _, line in islice(nonblank_lines(files[0], encoding), SAMPLE)]
    return FileSample(files, encoding, lines)


def record_of(path: Path, line: int, make: Callable[..., dict[str, Any]], *arguments: Any) -> Record:
    """Returns a record with the values that a function makes, or with the `InputError` that it raises."""
    try:
        return Record(path, line, make(*arguments))
    except InputError as error:
        return Record(path, line, _placed(error, path, line))


def example_of(record: Record, make: Callable[[dict[str, Any]], Made]) -> Made | InputError:
    """Returns what a function makes of the values of a record, or the error of the record."""
    values: dict[str, Any] = {}
    try:
        values = record.values
        return make(values)
    except InputError as error:
        error.ids = error.ids or ids_of(values)
        return _placed(error, record.path, record.line)


def _placed(error: InputError, path: Path, line: int) -> InputError:
    """Gives an error its place, unless it knows it better."""
    error.where = error.where or str(path)
    error.line = line if error.line is None else error.line
    return error
