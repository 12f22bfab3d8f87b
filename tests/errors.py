"""What calls say that end in an error."""

from collections.abc import Callable
from typing import Any

import pytest


def error_of(kind: type[Exception], function: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """The message of the error of that kind with which the call ends."""
    with pytest.raises(kind) as caught:
        function(*arguments, **options)
    return str(caught.value)
