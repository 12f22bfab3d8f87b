"""What goes wrong with the files, the options and the input of a biLM."""

from os import PathLike

FilePath = str | PathLike[str]


class ElmoError(ValueError):
    """The message says what was found, where, and what was expected."""


def at_line(path: FilePath, line: int | None, *, found: str, expected: str) -> ElmoError:
    """`FILE, line N: found ..., expected ...`; without a line, an error about the file as a whole."""
    where = str(path) if line is None else f"{path}, line {line}"
    return ElmoError(f"{where}: found {found}, expected {expected}")
