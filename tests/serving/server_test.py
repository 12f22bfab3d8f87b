"""Clients that say nothing, little or too much to a server, which others find open."""

import socket
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import repeat

import httpx
import pytest

from elmo_tasks.serving.answers import Limits
from elmo_tasks.serving.app import BoundedProtocol
from elmo_tasks.serving.models import local_model
from tests.pipeline.fake import Doubling
from tests.serving.clients import running

LIMITS = Limits(timeout=1, max_connections=12, max_connections_of_client=8)
HEADERS = b"POST /predict/double HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def service():
    with running({"double": local_model(Doubling(), LIMITS)}, LIMITS, token="secret") as address:
        yield address


@pytest.fixture
def connect(service):
    host, port = service.removeprefix("http://").split(":")
    with ExitStack() as stack:
        yield lambda: stack.enter_context(socket.create_connection((host, int(port)), timeout=20))


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (b"", b""),
        (b"G", b""),
        (HEADERS, b""),
        (b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET", b"200"),
        (b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1", b"200"),
        (HEADERS + b"Authorization: Bearer secret\r\nContent-Length: 9\r\n\r\n1", b"408"),
    ],
)
def test_its_time_is_over(service, connect, caplog, content, answer):
    connections = [connect() for _ in range(4)]
    began = time.monotonic()
    for connection in connections:
        connection.sendall(content)
    assert httpx.get(f"{service}/health").status_code == 200
    for connection in connections:
        received = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(1 << 16):
                received += part
        assert answer in received[:20]
    assert 0.9 < time.monotonic() - began < 15
    time.sleep(1.2)
    assert "closed 4 connections of 127.0.0.1" in caplog.text


@pytest.mark.parametrize("access_log", [False, True])
def test_the_log_of_requests(capsys, access_log):
    with running({"double": local_model(Doubling(), LIMITS)}, LIMITS, access_log=access_log) as address:
        httpx.get(f"{address}/health")
    assert ('"GET /health HTTP/1.1" 200' in capsys.readouterr().out) == access_log


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (HEADERS + b"X: ", b"x" * 65536),
        (HEADERS, b"X: y\r\n" * 10000),
        (b"GET /", b"x" * 65536),
        (b"", b"x" * 65536),
    ],
)
def test_headers_without_an_end(connect, begin, part):
    connection, sent = connect(), 0
    connection.sendall(begin)
    with suppress(BrokenPipeError, ConnectionResetError):
        for _ in repeat(None, 10000):
            sent += connection.send(part)
            time.sleep(0.001)
    assert sent < 100 * len(part)


def test_too_many_connections(capfd):
    # So much time that no connection is closed before the last request, also on a busy machine.
    limits = replace(LIMITS, timeout=60)
    with running({"double": local_model(Doubling(), limits)}, limits, token="secret") as address:
        host, port = address.removeprefix("http://").split(":")
        with ExitStack() as stack:
            for _ in range(LIMITS.max_connections_of_client):
                stack.enter_context(socket.create_connection((host, int(port)), timeout=20))
            time.sleep(0.5)
            for _ in range(3):
                assert httpx.get(f"{address}/health").status_code == 503
        time.sleep(1.5)
        assert "closed 3 connections" in capfd.readouterr().err
        assert httpx.get(f"{address}/health").status_code == 200


def test_nobody_is_sent_to_another_host(service):
    headers = {"Host": "elsewhere.example", "Authorization": "Bearer secret"}
    response = httpx.post(f"{service}/predict/double/", json={}, headers=headers)
    assert (response.status_code, response.headers.get("location")) == (404, None)


def test_a_body_does_not_wait_for_the_client_to_acknowledge_the_headers(monkeypatch):
    options, made = [], BoundedProtocol.connection_made

    def connection_made(self, transport):
        made(self, transport)
        accepted = transport.get_extra_info("socket")
        options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(BoundedProtocol, "connection_made", connection_made)
    with running({"double": local_model(Doubling(), LIMITS)}, LIMITS) as address:
        httpx.get(f"{address}/health")
    assert [bool(option) for option in options] == [True]
