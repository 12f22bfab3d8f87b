"""Reads the body of a request, and the JSON in it."""

import asyncio
import json

from allennlp.common import JsonDict
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from elmo_tasks.common import strict_json
from elmo_tasks.data.json_lines import printable, shorten
from elmo_tasks.serving.answers import Limits

_EXPECTED = "expected a JSON object, or a list of objects"


async def read_body(request: Request, limits: Limits) -> bytes:
    """
    Returns the body of a request. A body that is too large is read to its end, but not kept: clients listen
    only after they have sent it.

    # Raises
    `HTTPException`: the body is compressed, too large, too slow, or incomplete.
    """
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise HTTPException(415, f"found the content encoding {encoding}, expected none")
    body = bytearray()
    size = 0
    try:
        async with asyncio.timeout(limits.timeout):
            async for part in request.stream():
                size += len(part)
                if size <= limits.max_bytes:
                    body += part
    except ClientDisconnect as error:
        raise HTTPException(400, "found no end of the request: the client has gone") from error
    except TimeoutError as error:
        if size <= limits.max_bytes:
            reason = f"found no end of the request within {limits.timeout:g} seconds"
            raise HTTPException(408, reason) from error
    if size > limits.max_bytes:
        raise HTTPException(413, f"found more bytes than the {limits.max_bytes:,} expected at most")
    return bytes(body)


def parse(body: bytes, limits: Limits) -> JsonDict | list[JsonDict]:
    """
    Parses a body to one input or a list of inputs.

    # Raises
    `HTTPException`: the body is not JSON, neither an object nor a list of objects, or has too many inputs.
    """
    try:
        text = body.decode("utf-8").removeprefix("\ufeff")
        content = strict_json.loads(text)
    except UnicodeDecodeError as error:
        found = f"found the byte 0x{body[error.start]:02x} at offset {error.start}, expected UTF-8"
        raise HTTPException(400, found) from error
    except json.JSONDecodeError as error:
        found = f"found no JSON ({error}): {shorten(printable(text.strip()))}; {_EXPECTED}"
        raise HTTPException(400, found) from error
    if not isinstance(content, list):
        if not isinstance(content, dict):
            raise HTTPException(422, f"found {shorten(text.strip())}; {_EXPECTED}")
        return content
    if len(content) > limits.max_queue:
        raise HTTPException(413, f"found {len(content):,} inputs, expected at most {limits.max_queue:,}")
    for number, one in enumerate(content, start=1):
        if not isinstance(one, dict):
            found = shorten(json.dumps(one))
            raise HTTPException(
                422, f"input {number} of {len(content)}: found {found}, expected a JSON object"
            )
    return content
