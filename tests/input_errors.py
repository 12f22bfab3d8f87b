"""What readers say of files that are not what they expect."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elmo_tasks.data.input_files import InputError


def input_error(read: Callable[[str], Any], path: Path, text: str) -> str:
    """The message of the error that ends the reading of a file of this text."""
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read(str(path))
    return str(error.value)
