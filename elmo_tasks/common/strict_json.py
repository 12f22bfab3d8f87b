"""
JSON by the standard (RFC 8259), within the limits of Python.

Python's own reader takes `NaN`, reads `1e999` as an infinity, and takes half of a surrogate pair, which no
file can hold. It does not say where a number of 5,000 digits is, or where lists nest 10,000 levels deep.
"""

import json
import re
from math import inf
from typing import Any

from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.common.files import read_text

MAX_BYTES = 1 << 20
"""The size of a file that `read_object` reads."""
MAX_LEVELS = 100
"""The most levels of nested lists and objects."""
_MAX_DIGITS = 4300
"""Python's own bound."""
_TOKENS = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*")|(?P<open>[\[{])|(?P<close>[\]}])|(?P<constant>NaN|-?Infinity)'
    rf"|(?P<digits>-?\d{{{_MAX_DIGITS + 1},}}+(?![.eE]))|(?P<float>-?\d++[\d.eE+-]+)|\d++",
    re.DOTALL,
)
_CONTAINERS = frozenset([dict, list])
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


class _ConstantError(Exception):
    pass


def _refuse(name: str) -> Any:
    raise _ConstantError(name)


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def read_object(path: FilePath, *, where: str | None = None) -> dict[str, Any]:
    """
    Reads a JSON file that holds an object. `where` names it in errors, by default `path`.

    # Raises
    `ElmoError`, with the file and the line: it has more than `MAX_BYTES`, is not UTF-8, not JSON (see
    `loads`), or not an object.
    """
    where = where or str(path)
    try:
        content = loads(read_text(path, max_bytes=MAX_BYTES, where=where))
    except json.JSONDecodeError as error:
        raise ElmoError(f"{where}, line {error.lineno}: not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ElmoError(f"{where}: found {type(content).__name__}, expected an object")
    return content


def loads(text: str) -> Any:
    """
    Returns the value of a JSON text.

    # Raises
    `json.JSONDecodeError`, with the position: no JSON; `NaN` or an infinity, also as `1e999`; half of a
    surrogate pair; a number of more than 4,300 digits; more than `MAX_LEVELS` levels.
    """
    try:
        value = _decode(text)
        _check(value)
        if surrogate := _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError:
        raise
    except _ConstantError as error:
        raise json.JSONDecodeError(
            f"{error} is no number of JSON", text, _position(text, "constant")
        ) from error
    except OverflowError as error:
        message = "A number beyond 1.8e308, the largest float"
        raise json.JSONDecodeError(message, text, _position(text, "float")) from error
    except RecursionError as error:
        raise json.JSONDecodeError(f"More than {MAX_LEVELS} levels", text, _position(text, "open")) from error
    except UnicodeEncodeError as error:
        assert surrogate is not None
        message = "Half of a surrogate pair, which is no character"
        raise json.JSONDecodeError(message, text, surrogate.start()) from error
    except ValueError as error:
        message = f"A number of more than {_MAX_DIGITS:,} digits"
        raise json.JSONDecodeError(message, text, _position(text, "digits")) from error
    return value


def _check(value: Any) -> None:
    """Raises `OverflowError` for an infinity, and `RecursionError` for more than `MAX_LEVELS` levels."""
    level = [value]
    for _ in range(MAX_LEVELS + 1):
        if inf in level or -inf in level:
            raise OverflowError
        containers = [each for each in level if type(each) in _CONTAINERS]
        if not containers:
            return
        level = [part for each in containers for part in (each.values() if isinstance(each, dict) else each)]
    raise RecursionError


def _position(text: str, kind: str) -> int:
    """
    Returns the position of the first token of a kind; of opening brackets, the first that is too deep; of
    floats, the first that is infinite.
    """
    level = 0
    for token in _TOKENS.finditer(text):
        level += (token.lastgroup == "open") - (token.lastgroup == "close")
        if token.lastgroup != kind or (kind == "open" and level <= MAX_LEVELS):
            continue
        if kind != "float" or abs(float(token[0])) == inf:
            return token.start()
    return 0
