"""
JSON as it is standardised (RFC 8259), within what Python can do with it.

Python takes `NaN`, and half of a surrogate pair, which no file can hold; and of a number of 5,000 digits, or
of lists in lists 10,000 deep, it does not say where they are.
"""

import json
import re
from typing import Any

MAX_LEVELS = 100
"""Of lists and objects in one another."""
_MAX_DIGITS = 4300
"""Python's own bound."""
_TOKENS = re.compile(
    rf'(?P<text>"(?:[^"\\]|\\.)*")|(?P<open>[\[{{])|(?P<close>[\]}}])|(?P<number>\d{{{_MAX_DIGITS + 1},}})'
    r"|(?P<constant>NaN|-?Infinity)",
    re.DOTALL,
)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


class _ConstantError(Exception):
    pass


def _refuse(name: str) -> Any:
    raise _ConstantError(name)


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def loads(text: str) -> Any:
    """
    The value of a text.

    # Raises
    `json.JSONDecodeError`, with the place: no JSON; `NaN` or an infinity; half of a surrogate pair; more than
    4,300 digits; more than `MAX_LEVELS`.
    """
    try:
        value = _decode(text)
        if _is_deep(value):
            raise RecursionError
        if half := _SURROGATE.search(text):
            _check_encodes(value, text, half.start())
    except json.JSONDecodeError:
        raise
    except _ConstantError as error:
        raise json.JSONDecodeError(f"{error} is no number of JSON", text, _place(text, "constant")) from error
    except RecursionError as error:
        raise json.JSONDecodeError(f"More than {MAX_LEVELS} levels", text, _place(text, "open")) from error
    except ValueError as error:
        message = f"A number of more than {_MAX_DIGITS:,} digits"
        raise json.JSONDecodeError(message, text, _place(text, "number")) from error
    return value


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_LEVELS):
        if not level:
            return False
        level = [
            part
            for container in level
            for part in (container.values() if isinstance(container, dict) else container)
            if isinstance(part, dict | list)
        ]
    return bool(level)


def _check_encodes(value: Any, text: str, place: int) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise json.JSONDecodeError("Half of a surrogate pair, which is no character", text, place) from error


def _place(text: str, kind: str) -> int:
    """Where the first token of a kind is; of those that open, the first that is too deep."""
    level = 0
    for token in _TOKENS.finditer(text):
        level += (token.lastgroup == "open") - (token.lastgroup == "close")
        if token.lastgroup == kind and (kind != "open" or level > MAX_LEVELS):
            return token.start()
    return 0
