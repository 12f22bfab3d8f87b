"""
Files to records: a module a family of formats, for all tasks. A reader knows a task and takes one kind of
record from its `formats`; a format knows files.

A format is chosen by a `Sample` of the data: the first lines, and lines spread over the rest. No format reads
all data to find out whether it fits.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from elmo_tasks.data.input_files import InputError

if TYPE_CHECKING:
    from elmo_tasks.data.formats.sample import Sample


class Fit(IntEnum):
    """How well a format fits a sample."""

    NO = 0
    """The format cannot read it."""
    POSSIBLE = 1
    """It can be read so, as much else can: any text is words without tags."""
    LIKELY = 2
    """Most data of this shape are of the format."""
    CERTAIN = 3
    """It has a mark that no other format has."""


class Format(NamedTuple):
    """A format of files with one kind of record, such as sentences with entities."""

    name: str
    """The value of a reader's key `format`."""
    fit: Callable[["Sample"], Fit]
    """Returns how well the format fits. It raises no error."""
    read: Callable[..., Iterator[Any]]
    """Yields the records of a file; its other arguments are the same for all formats of a kind."""


def best_format(formats: Sequence[Format], sample: "Sample") -> Format:
    """Returns the format that fits best; of equal ones the first."""
    return max(formats, key=lambda format: format.fit(sample))


class Doubt(NamedTuple):
    """A question that the data leave open: which of several columns is meant."""

    what: str
    """`label` or `text`, the option that answers it."""
    choices: Sequence[str]
    """Each column, with its number of different values and three of them."""
    columns: Sequence[str]

    def question(self) -> str:
        return f"the {self.what} could be {' or '.join(self.choices)}"


class Finding(NamedTuple):
    """How a reader may read data of an unknown format."""

    fit: Fit
    candidates: Sequence[dict[str, Any]] = ()
    """The keys except `type` with which the reader may read the data, the likeliest first."""
    problem: InputError | None = None
    """Why it cannot read data that look like its own."""
    doubts: Sequence[Doubt] = ()
    unlabelled: dict[str, Any] | None = None
    """The columns `texts` of texts without labels, and all `columns` if the file does not name them."""
    columns: Sequence[str] = ()
    """The columns that the sample's `label` and `texts` may choose, beside those that `candidates` name."""
