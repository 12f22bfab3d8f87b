import asyncio

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from elmo_tasks.serving.answers import Limits
from elmo_tasks.serving.requests import parse, read_body

LIMITS = Limits(max_bytes=10, max_queue=2, timeout=0.05)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"", 400, "found no JSON (Expecting value: line 1 column 1 (char 0)): ; expected a JSON object"),
        (b'{"a": NaN}', 400, "NaN is no number of JSON"),
        (b'{"a": "\xff"}', 400, "found the byte 0xff at offset 7, expected UTF-8"),
        (b'"a"', 422, 'found "a"; expected a JSON object, or a list of objects'),
        (b"[{}, null]", 422, "input 2 of 2: found null, expected a JSON object"),
        (b"[{}, {}, {}]", 413, "found 3 inputs, expected at most 2"),
    ],
)
def test_bad_json(body, status, reason):
    with pytest.raises(HTTPException) as caught:
        parse(body, LIMITS)
    assert caught.value.status_code == status
    assert reason in caught.value.detail


def test_an_object_or_a_list():
    assert parse('{"a": "ä"}'.encode(), LIMITS) == {"a": "ä"}
    assert parse(b'\xef\xbb\xbf{"a": 1}', LIMITS) == {"a": 1}
    assert parse(b"[]", LIMITS) == []
    assert parse(b"[{}]", LIMITS) == [{}]


def read(*parts, pause=0.0, **headers):
    messages = iter(parts)

    async def receive():
        part = next(messages, None)
        if part is None:
            await asyncio.sleep(pause)
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    scope = {"type": "http", "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
    return asyncio.run(read_body(Request(scope, receive), LIMITS))


def test_a_client_that_goes():
    messages = iter([{"type": "http.request", "body": b"1", "more_body": True}, {"type": "http.disconnect"}])

    async def receive():
        return next(messages)

    with pytest.raises(HTTPException, match="found no end of the request: the client has gone") as caught:
        asyncio.run(read_body(Request({"type": "http", "headers": []}, receive), LIMITS))
    assert caught.value.status_code == 400


def test_a_body_of_several_parts():
    assert read(b"12345", b"67890") == b"1234567890"


@pytest.mark.parametrize("coding", ["identity", "Identity"])
def test_a_body_that_is_not_packed(coding):
    assert read(b"1", **{"content-encoding": coding}) == b"1"


@pytest.mark.parametrize(
    ("parts", "options", "status", "reason"),
    [
        ((b"12345", b"678901"), {}, 413, "found more bytes than the 10 expected at most"),
        ((b"12345678901",), {"pause": 1.0}, 413, "found more bytes than the 10 expected at most"),
        ((b"1",), {"pause": 1.0}, 408, "found no end of the request within 0.05 seconds"),
        ((b"1",), {"content-encoding": "gzip"}, 415, "found the content encoding gzip, expected none"),
    ],
)
def test_a_body_that_is_refused(parts, options, status, reason):
    with pytest.raises(HTTPException) as caught:
        read(*parts, **options)
    assert (caught.value.status_code, caught.value.detail) == (status, reason)
