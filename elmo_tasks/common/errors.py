"""The error of the core, and suggestions for misspelt names. It needs no AllenNLP."""

import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

FilePath = str | os.PathLike[str]


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
        """Returns `FILE, line N: found ..., expected ...`; without a line it is about the whole files."""
        files = ", ".join(map(str, path if isinstance(path, list) else [path]))
        where = files if line is None else f"{files}, line {line}"
        return cls(f"{where}: found {found}, expected {expected}")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns `; did you mean 'x'?` with the nearest of `names`; an empty text where none is near."""
    nearest = nearest_name(name, names)
    return f"; did you mean {nearest!r}?" if nearest else ""


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Returns the nearest of `names`, if one is near. Case does not count, and `-` is the same as `_`."""
    by_form = {_form(each): each for each in sorted(map(str, names), reverse=True)}
    nearest = difflib.get_close_matches(_form(name), by_form, n=1)
    return by_form[nearest[0]] if nearest else None


def did_you_mean_path(path: FilePath) -> str:
    """Suggests, for a path that does not exist, a neighbour of its first part that is missing."""
    missing = Path(path).expanduser()
    while not missing.parent.is_dir() and missing != missing.parent:
        missing = missing.parent
    try:
        siblings = [each.name for each in missing.parent.iterdir()]
    except OSError:
        return ""
    nearest = None if missing.name in siblings else nearest_name(missing.name, siblings)
    return f"; did you mean '{missing.with_name(nearest)}'?" if nearest else ""


def _form(name: str) -> str:
    return name.lower().replace("-", "_")
