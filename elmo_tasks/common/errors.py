"""The error of the core, and suggestions for misspelt names. It needs no AllenNLP."""

import difflib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict, Unpack

FilePath = str | os.PathLike[str]
_SHOWN = 1500
"""The characters of an error that are shown, since it may quote a long line."""


class Place(TypedDict, total=False):
    """The parts of an `ElmoError` in addition to what is wrong."""

    where: FilePath | list[str]
    line: int | None
    key: str
    remedy: str


class ElmoError(ValueError):
    """
    An error that the user can fix. `str` makes one sentence of its parts: `FILE, line 3: "B-X" is not a tag;
    did you mean "B-Y"?`.

    The core raises this class and no other of its own. The AllenNLP layer raises it as a `ConfigError`, with
    the path of the config block (`strict_params`).

    # Parameters

    what : what is wrong.
    where : the file or files, or whatever else names the input.
    line : the line in the file, from 1.
    key : the path of the key in a config.
    remedy : what to do about it.
    """

    def __init__(
        self,
        what: str,
        *,
        where: FilePath | list[str] = "",
        line: int | None = None,
        key: str = "",
        remedy: str = "",
    ) -> None:
        super().__init__(what)
        self.what, self.line, self.key, self.remedy = what, line, key, remedy
        self.where = ", ".join(map(str, where)) if isinstance(where, list) else str(where)

    def __str__(self) -> str:
        line = "" if self.line is None else f"line {self.line}"
        place = ", ".join(filter(None, [self.where, line]))
        what = self.what if len(self.what) <= _SHOWN else f"{self.what[:_SHOWN]}..."
        sentence = ": ".join(filter(None, [self.key, place, what]))
        return f"{sentence}; {self.remedy}" if self.remedy else sentence


@contextmanager
def errors_as(
    kind: type[ElmoError],
    what: str,
    caught: type[Exception] | tuple[type[Exception], ...] = Exception,
    **place: Unpack[Place],
) -> Iterator[None]:
    """
    Raises the errors of a library as a `kind` of `ElmoError`: `what` is wrong, with the first line of their
    text, and the `place` of `ElmoError`. An error of this kind passes unchanged.
    """
    try:
        yield
    except caught as error:
        if isinstance(error, kind):
            raise
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__
        raise kind(f"{what} ({reason})", **place) from error


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns `; did you mean 'x'?` with the nearest of `names`; an empty text where none is near."""
    nearest = nearest_name(name, names)
    return f"; did you mean {nearest!r}?" if nearest else ""


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Returns the nearest of `names`, if one is near. Case does not count, and `-` is the same as `_`."""
    by_form = {_form(known): known for known in sorted(map(str, names), reverse=True)}
    nearest = difflib.get_close_matches(_form(name), by_form, n=1)
    return by_form[nearest[0]] if nearest else None


def did_you_mean_path(path: FilePath) -> str:
    """Suggests, for a path that does not exist, a neighbour of its first part that is missing."""
    missing = Path(path).expanduser()
    while not missing.parent.is_dir() and missing != missing.parent:
        missing = missing.parent
    try:
        siblings = [sibling.name for sibling in missing.parent.iterdir()]
    except OSError:
        return ""
    nearest = None if missing.name in siblings else nearest_name(missing.name, siblings)
    return f"; did you mean '{missing.with_name(nearest)}'?" if nearest else ""


def _form(name: str) -> str:
    return name.lower().replace("-", "_")
