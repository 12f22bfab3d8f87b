"""Calls that may fail with one kind of error, and JSON values that cannot be read."""

import os
from collections.abc import Callable
from typing import Any

FUZZ = int(os.environ.get("FUZZ", 1))
"""Factor by which the number of examples is larger than usual."""
UNREADABLE = {
    "half of a surrogate pair": rb'"\ud83d"',
    "5,000 digits": b"1" * 5000,
    "100,000 levels": b"[" * 100_000 + b"]" * 100_000,
    "NaN": b"NaN",
    "-Infinity": b"-Infinity",
}
"""JSON values that Python's reader takes, or that it cannot hold."""


def attempt(call: Callable[..., Any], *arguments: Any, error: type[Exception]) -> tuple[Any, str]:
    """The result and "", or `None` and the message of the one kind of error that may be."""
    try:
        return call(*arguments), ""
    except error as caught:
        message = str(caught)
        assert len(message) < 2000
        message.encode()
        return None, message
