"""Text in columns: one token a line, an empty line between sentences."""

import re
from collections.abc import Iterable, Iterator, Sequence

from allennlp.common.checks import ConfigurationError

BLANKS = " \t"
_RUN = re.compile(f"[{BLANKS}]+")


class ColumnLayout:
    """
    # Parameters

    names : names of the columns in order.
    delimiter : what separates the columns; `None` for any run of blanks and tabs.
    needed : names that stand among `names` once each.

    # Raises
    `ConfigurationError`: a name that is needed does not stand there once.
    """

    def __init__(self, names: Sequence[str], delimiter: str | None, *, needed: Sequence[str]) -> None:
        if any(list(names).count(name) != 1 for name in needed):
            quoted = [repr(name) for name in needed]
            raise ConfigurationError(
                f"columns: found {names!r}, expected a list of names with {', '.join(quoted[:-1])} and "
                f"{quoted[-1]} once each"
            )
        self.names = list(names)
        self.delimiter = delimiter

    def split(self, line: str) -> list[str]:
        """The cells of a line."""
        return split_cells(line, self.delimiter)


def split_cells(line: str, delimiter: str | None) -> list[str]:
    """The cells between delimiters; `None`: between runs of blanks and tabs, not of other white space."""
    return line.split(delimiter) if delimiter else _RUN.split(line.strip(BLANKS))


def line_groups(
    lines: Iterable[tuple[int, str]], *, separators: tuple[str, ...] = ()
) -> Iterator[list[tuple[int, str]]]:
    """
    The numbered lines between empty ones, which may have blanks and tabs.

    # Parameters

    separators : a line that begins with one of them separates like an empty one.
    """
    group: list[tuple[int, str]] = []
    for number, line in lines:
        if line.strip(BLANKS) and not line.startswith(separators):
            group.append((number, line))
        elif group:
            yield group
            group = []
    if group:
        yield group
