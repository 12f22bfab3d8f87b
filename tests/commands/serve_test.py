import json
import os
import random
import re
import resource
import signal
import socket
import sys
import threading
import time
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.serve import Serve
from elmo_tasks.common.files import bundled
from tests.commands.texts import parsed
from tests.forked import Command


def slow_answers():
    """Each batch takes a second."""
    from elmo_tasks.serving.answers import Answers

    answers = Answers.__call__

    def slow(self, inputs):
        time.sleep(1)
        return answers(self, inputs)

    patch.object(Answers, "__call__", slow).start()


def address_in(log):
    for _ in range(2400):
        if "http://" in (text := log.read_text() if log.exists() else ""):
            return text.split("http://")[1].split("/")[0]
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


@pytest.mark.slow
def test_more_connections_at_once_than_descriptors(ner_archive, tmp_path):
    """They are counted in the log, and the service answers when they are gone."""
    httpx = pytest.importorskip("httpx")
    log = tmp_path / "log"
    command = Command(["elmo", "serve", f"mine={ner_archive}", "--port", 0], log, prepare=few_descriptors)
    host, port = address_in(log).split(":")
    with ExitStack() as stack:
        for _ in range(400):
            connection = stack.enter_context(socket.socket())
            connection.setblocking(False)
            connection.connect_ex((host, int(port)))
        time.sleep(3)
    time.sleep(1)
    assert httpx.get(f"http://{host}:{port}/health", timeout=20).status_code == 200
    os.kill(command.pid, signal.SIGTERM)
    assert command.finish() == 143
    assert "Traceback" not in log.read_text()
    assert 0 < log.read_text().count("WARNING") < 5


def mixed_requests(words):
    """Yields the name of a model and a body: inputs of all lengths, alone and in lists, and bad ones."""
    draw = random.Random(1)
    while True:
        texts = [" ".join(draw.choices(words, k=draw.choice([1, 10, 40]))) for _ in range(3)]
        inputs = {
            "ner": [{"sentence": text} for text in texts],
            "snli": [{"premise": text, "hypothesis": text} for text in texts],
        }
        name = draw.choice([*inputs])
        bodies = (inputs[name], *inputs[name], {"sentence": 5}, "[" * 10_000)
        yield name, draw.choice([body if isinstance(body, str) else json.dumps(body) for body in bodies])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_reaches_a_plateau(tmp_path):
    """The second half of mixed requests needs no more than the first one."""
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("fastapi")
    command = Command(["elmo", "serve", "elmo:ner", "elmo:snli", "--port", 0], tmp_path / "log")
    url = f"http://{address_in(tmp_path / 'log')}"

    def megabytes():
        status = Path(f"/proc/{command.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    words = bundled("pretrained/english/vocab.txt").read_text().split()[:2000]
    requests, sizes = mixed_requests(words), [megabytes()]
    with httpx.Client(timeout=60) as client:
        for _ in range(10):
            for name, body in islice(requests, 80):
                assert client.post(f"{url}/predict/{name}", content=body).status_code in (200, 400, 422)
            sizes.append(megabytes())
    os.kill(command.pid, signal.SIGTERM)
    assert command.finish() == 143
    assert max(sizes) < 1.1 * sizes[5], sizes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")]
)
def test_a_signal_ends_it_when_what_is_in_flight_is_answered(ner_archive, tmp_path, number, code, word):
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("fastapi")
    log, token = tmp_path / "log", tmp_path / "token"
    token.write_text("secret\n")
    command = Command(
        ["elmo", "serve", f"mine={ner_archive}", "--port", 0, "--token-file", token],
        log,
        prepare=slow_answers,
    )
    url = f"http://{address_in(log)}"
    assert "secret" not in log.read_text()
    assert httpx.post(f"{url}/predict/mine", json={}).status_code == 401
    responses = []

    def ask():
        header = {"Authorization": "Bearer secret"}
        response = httpx.post(
            f"{url}/predict/mine", json={"sentence": "Ana flew ."}, headers=header, timeout=20
        )
        responses.append(response.json()["tokens"])

    clients = [threading.Thread(target=ask) for _ in range(3)]
    for client in clients:
        client.start()
    time.sleep(0.4)
    os.kill(command.pid, number)
    for client in clients:
        client.join()
    assert responses == [["Ana", "flew", "."]] * 3
    assert command.finish() == code
    assert log.read_text().splitlines()[-1] == word
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/health")


@pytest.mark.parametrize(
    ("options", "module", "extra"), [((), "fastapi", "serve"), (("--replicas", 2), "ray", "ray")]
)
def test_an_extra_is_missing(ner_archive, monkeypatch, options, module, extra):
    if extra == "ray":
        pytest.importorskip("fastapi")
    for name in [name for name in sys.modules if name.startswith("elmo_tasks.serving")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=f"EXTRAS={extra}"):
        parsed(Serve, ner_archive, "--port", 0, *options).run()


@pytest.mark.parametrize("content", [b"", b"two words", "ä".encode(), b"\xff"])
def test_no_token(ner_archive, tmp_path, content):
    pytest.importorskip("fastapi")
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"^{path} "):
        parsed(Serve, ner_archive, "--token-file", path).run()


def test_ports(ner_archive, capsys):
    for port in ("-1", "65536", "x"):
        with pytest.raises(SystemExit):
            parsed(Serve, ner_archive, "--port", port)
        assert f"'{port}' is not a port" in capsys.readouterr().err
    pytest.importorskip("fastapi")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"^port {port} is in use; --port"):
            parsed(Serve, ner_archive, "--port", port).run()
    assert capsys.readouterr().err == f"loading {ner_archive}\n"
