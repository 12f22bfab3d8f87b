"""The messages of calls, and of readings of files, that end in an error."""

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
