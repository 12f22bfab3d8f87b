"""
Files to records: a module a family of formats, for all tasks. A reader knows a task and takes one kind of
record from its `formats`; a format knows files.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from elmo_tasks.data.input_files import FileSample, InputError

POSSIBLE, LIKELY, CERTAIN = 0.3, 0.6, 0.9
"""
Evidence for a format: the data can be read so, as much else can; most data of this shape are of it; or they
have a mark that no other format has. 0 is a format that cannot read them.
"""


class Format(NamedTuple):
    """A format of files with one kind of record, such as sentences with entities."""

    name: str
    """The value of a reader's key `format`."""
    detect: Callable[[FileSample], float]
    """Returns the evidence, from 0 to 1, that a sample is of the format. It raises no error."""
    read: Callable[..., Iterator[Any]]
    """Yields the records of a file; its other arguments are the same for all formats of a kind."""


class Finding(NamedTuple):
    """How a reader may read data of an unknown format."""

    evidence: float
    """As `Format.detect` returns it."""
    candidates: Sequence[dict[str, Any]] = ()
    """The keys except `type` with which the reader may read the data, the likeliest first."""
    problem: InputError | None = None
    """Why it cannot read data that look like its own."""
