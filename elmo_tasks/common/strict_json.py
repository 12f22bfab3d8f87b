"""
JSON by the standard (RFC 8259). Python's own reader takes `NaN` and half of a surrogate pair, which no file
can hold.
"""

import json
import re
from typing import Any, NoReturn

from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.common.files import read_utf8

MAX_BYTES = 1 << 20
"""The size of a file that `read_object` reads."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


_decode_strictly = json.JSONDecoder(parse_constant=_refuse_constant).decode


def read_object(path: FilePath, *, where: str | None = None) -> dict[str, Any]:
    """
    Reads a JSON file that holds an object. `where` names it in errors, by default `path`.

    # Raises
    `ElmoError`, with the file and the line: it has more than `MAX_BYTES`, is not UTF-8, not JSON (see
    `loads`), or not an object.
    """
    where = where or str(path)
    try:
        content = loads(read_utf8(path, max_bytes=MAX_BYTES, where=where))
    except json.JSONDecodeError as error:
        raise ElmoError(f"not JSON: {error}", where=where, line=error.lineno) from error
    if not isinstance(content, dict):
        raise ElmoError("not a JSON object", where=where)
    return content


def loads(text: str) -> Any:
    """
    Returns the value of a JSON text.

    # Raises
    `json.JSONDecodeError`, with the position: not JSON; half of a surrogate pair. With the start of the text:
    `NaN` or an infinity; a number of more digits, or more levels of lists and objects, than Python reads.
    """
    try:
        value = _decode_strictly(text)
        if surrogate := _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError:
        raise
    except UnicodeEncodeError as error:
        assert surrogate is not None
        problem = "Half of a surrogate pair is not a character"
        raise json.JSONDecodeError(problem, text, surrogate.start()) from error
    except (ValueError, RecursionError) as error:
        raise json.JSONDecodeError(str(error), text, 0) from error
    return value
