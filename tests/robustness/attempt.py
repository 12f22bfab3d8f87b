"""Calls that may fail, in one way alone."""

import os
from collections.abc import Callable
from typing import Any

FUZZ = int(os.environ.get("FUZZ", 1))
"""So many times the usual number of examples."""


def attempt(call: Callable[..., Any], *arguments: Any, error: type[Exception]) -> tuple[Any, str]:
    """The result and "", or `None` and the message of the one kind of error that may be."""
    try:
        return call(*arguments), ""
    except error as caught:
        message = str(caught)
        assert len(message) < 2000
        message.encode()
        return None, message
