"""What messages share: the nearest right name for a wrong one, and how a duration is said."""

import difflib
import os
from collections.abc import Iterable
from pathlib import Path


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`; did you mean 'x'?` with that of `names` which is nearest to `name`; empty where none is near."""
    nearest = nearest_name(name, names)
    return f"; did you mean {nearest!r}?" if nearest else ""


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that is nearest to `name`, if one is near; case, and `-` for `_`, do not count."""
    by_form = {_form(each): each for each in sorted(map(str, names), reverse=True)}
    nearest = difflib.get_close_matches(_form(name), by_form, n=1)
    return by_form[nearest[0]] if nearest else None


def did_you_mean_path(path: str | os.PathLike[str]) -> str:
    """The same for a path where nothing is, with what stands beside its first part that is missing."""
    missing = Path(path).expanduser()
    while not missing.parent.is_dir() and missing != missing.parent:
        missing = missing.parent
    try:
        beside = [each.name for each in missing.parent.iterdir()]
    except OSError:
        return ""
    nearest = None if missing.name in beside else nearest_name(missing.name, beside)
    return f"; did you mean '{missing.with_name(nearest)}'?" if nearest else ""


def duration(seconds: float) -> str:
    """In its two largest units, such as `1 h 12 min`."""
    minutes = round(seconds / 60)
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    hours = round(seconds / 3600)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{hours // 24} d {hours % 24} h"


def _form(name: str) -> str:
    return name.lower().replace("-", "_")
