"""Progress bars for work that takes longer than two seconds, and durations in words. It needs no AllenNLP."""

import sys
import time
from collections.abc import Iterable
from threading import RLock
from typing import Any

from tqdm import tqdm

DELAY_SECONDS = 2
FIRST_LINE_SECONDS = 30
LINE_SECONDS = 300
"""If the output is not a terminal, the bar is a line after the first time, and then at this interval."""


class _Bar(tqdm):
    """A bar with a lock of this process. A killed process would keep the lock that tqdm shares with forks."""

    _lock = RLock()


def progress(items: Iterable[Any] | None = None, *, work: str, unit: str, **options: Any) -> Any:
    """
    Returns a bar of tqdm that iterates over `items` or is updated by the caller, and disappears at the end.
    `work` says what is done, and `unit` what is counted, such as "lines". The other options are tqdm's.
    """
    defaults = {"delay": DELAY_SECONDS, "leave": False}
    return _Bar(items, desc=work, unit=f" {unit}", **{**defaults, **options, **log_options()})


def input_progress(work: str, size: int | None) -> Any:
    """Returns the bar of an input: of its bytes or, if their number is not known, of its lines."""
    unit: dict[str, Any] = {"unit": "lines"} if size is None else {"unit": "B", "total": size}
    return progress(work=work, unit_scale=True, **unit)


def log_options() -> dict[str, Any]:
    """
    Returns the options of a tqdm bar where stderr is neither a terminal nor a notebook; otherwise none.
    Programs without a console, such as services, may have no stderr.
    """
    if sys.stderr is None:
        return {"disable": True}
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        return {}
    return {"file": _Lines(), "mininterval": FIRST_LINE_SECONDS, "delay": FIRST_LINE_SECONDS}


class _Lines:
    _next = 0.0

    def write(self, text: str) -> None:
        line, now = text.replace("\x1b[A", "").strip(), time.monotonic()
        if line and now >= self._next:
            sys.stderr.write(f"{line}\n")
            self._next = now + LINE_SECONDS

    def flush(self) -> None:
        sys.stderr.flush()


def duration(seconds: float) -> str:
    """Returns a duration in its two largest units, such as `1 h 12 min`."""
    minutes = round(seconds / 60)
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    hours = round(seconds / 3600)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{hours // 24} d {hours % 24} h"
