"""The error of the core: files, options, values and input that cannot be used. It needs no AllenNLP."""

from os import PathLike
from typing import Self

FilePath = str | PathLike[str]


class ElmoError(ValueError):
    """
    An error that the user can mend. Its message says where, what was found, and what was expected.

    The core raises this class and no other of its own. Classes that a config names raise AllenNLP's
    `ConfigurationError` in its place, with the path of their block (`StrictParams`).

    # Parameters

    key : the path of the key of a config block that the error is about, if it is about one.
    """

    def __init__(self, message: str, *, key: str = "") -> None:
        super().__init__(message)
        self.key = key

    @classmethod
    def at(cls, path: FilePath | list[str], line: int | None = None, *, found: str, expected: str) -> Self:
        """Returns `FILE, line N: found ..., expected ...`; without a line, of the whole file or files."""
        files = ", ".join(map(str, path if isinstance(path, list) else [path]))
        where = files if line is None else f"{files}, line {line}"
        return cls(f"{where}: found {found}, expected {expected}")
