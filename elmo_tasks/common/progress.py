"""The progress bar of what may take longer than two seconds, with the time left. It needs no AllenNLP."""

import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

DELAY_SECONDS = 2
LINE_SECONDS = 300
"""Where the output is no terminal, a bar is a line that comes once in so many seconds."""


def progress(items: Iterable[Any] | None = None, *, work: str, unit: str, **options: Any) -> Any:
    """
    A bar of tqdm, which goes over `items` or is updated by the caller, and is gone in the end.

    # Parameters

    work : what is done.
    unit : what is counted, such as "lines".
    options : of tqdm, such as `total`, where `items` have no length.
    """
    defaults = {"delay": DELAY_SECONDS, "leave": False}
    return tqdm(items, desc=work, unit=f" {unit}", **{**defaults, **options, **in_file()})


def in_file() -> dict[str, Any]:
    """
    The options of a bar of tqdm where stderr is neither a terminal nor a notebook; else none. Programs
    without a console, such as services, may have no stderr.
    """
    if sys.stderr is None:
        return {"disable": True}
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        return {}
    return {"file": _Lines(), "mininterval": LINE_SECONDS, "delay": LINE_SECONDS}


class _Lines:
    """What tqdm writes, each state of the bar as a line."""

    def write(self, text: str) -> None:
        if line := text.replace("\x1b[A", "").strip():
            sys.stderr.write(f"{line}\n")

    def flush(self) -> None:
        sys.stderr.flush()
