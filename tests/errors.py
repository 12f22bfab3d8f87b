"""The messages of calls, and of readings of files, that end in an error; and what a message names."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def error_of(kind: type[Exception], function: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Returns the message of the error of that kind with which the call ends."""
    with pytest.raises(kind) as caught:
        function(*arguments, **options)
    return str(caught.value)


def input_error(read: Callable[[str], Any], path: Path, text: str) -> str:
    """Returns the message of the error with which the reading of a file of this text ends."""
    from elmo_tasks.data.input_files import InputError  # with AllenNLP, which some tests do without

    path.write_text(text)
    return error_of(InputError, read, str(path))


def mentions(message: str, *parts: str) -> bool:
    """Returns whether a message has these parts in this order: a location, a value, a remedy."""
    position = 0
    for part in parts:
        if (position := message.find(part, position)) < 0:
            return False
        position += len(part)
    return True
