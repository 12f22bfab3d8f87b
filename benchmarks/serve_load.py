"""
`allennlp elmo serve` under load, and at bad requests.

An NER archive answers one client that asks for one sentence after the other, in batches of one; then several
concurrent clients, in batches. Every answer is compared with the answer of `allennlp predict`. Clients and
service share the machine.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from allennlp.common.checks import ConfigurationError

from benchmarks.bilms import read_text, size_of_text
from benchmarks.results import Results, add_results_argument, show
from elmo_tasks.serving.answers import Answers, Limits, Query
from elmo_tasks.serving.models import open_predictor

PATH = "/predict/ner"
RATE = "sentences/s"
LIMITS = Limits()

BAD = {
    "nothing": b"",
    "no JSON": b"{sentence}",
    "half an object": b'{"sentence": "a',
    "two objects": b"{} {}",
    "no UTF-8": b'{"sentence": "\xe4"}',
    "NaN": b'{"sentence": NaN}',
    "half of a surrogate pair": b'{"sentence": "\\ud800"}',
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "many digits": b'{"sentence": ' + b"1" * 5000 + b"}",
    "a string": b'"Ana"',
    "null": b"null",
    "a list in a list": b"[[{}]]",
    "no fields": b"{}",
    "another task's field": b'{"premise": "a"}',
    "a number": b'{"sentence": 1}',
    "tokens in a string": b'{"tokens": "a b"}',
    "a token that is none": b'{"tokens": ["a", null]}',
    "a bad one among good ones": b'[{"tokens": ["a"]}, {}]',
    "many tokens": json.dumps({"tokens": ["a"] * (LIMITS.max_tokens + 1)}).encode(),
    "a long word": json.dumps({"tokens": ["a" * 10_001]}).encode(),
    "many inputs": json.dumps([{}] * (LIMITS.max_queue + 1)).encode(),
    "many bytes": b" " * (LIMITS.max_bytes + 1),
    "a great many bytes": b" " * (30 * LIMITS.max_bytes),
}
"""Bodies that no NER model answers, at the limits that a service has by default."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", help="of NER: model.tar.gz, or the folder of a run")
    parser.add_argument("text", type=Path, help="a sentence a line, words apart by blanks")
    parser.add_argument("-n", type=int, default=500, help="sentences")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--inputs", type=int, default=1, help="sentences of a request")
    parser.add_argument(
        "--seconds", type=float, default=60, help="of the load; the one client has half of it"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--options", nargs="*", default=[], help="of the service, without --")
    add_results_argument(parser)


class Load(NamedTuple):
    """Measurements of the clients."""

    rate: float
    """Sentences a second."""
    seconds: list[float]
    """Seconds of each request."""
    errors: int
    difference: float
    """Largest difference of a number from the result of `predict`."""


def run(arguments: argparse.Namespace) -> None:
    sentences = read_text(arguments.text, arguments.n)
    inputs = [{"tokens": words} for words in sentences]
    predictor = open_predictor(arguments.archive)
    answer = Answers(predictor, LIMITS)
    expected = [json.loads(str(*answer([Query(one)]))) for one in inputs]
    del predictor, answer
    options = [f"--{option}" for option in arguments.options]
    results = Results("serve-load", arguments.csv)
    one_client, clients = "one client", f"{arguments.clients} clients"
    for number in range(arguments.rounds):
        with service(arguments.archive, "--batch-size", "1") as port:
            alone = load(port, inputs, expected, clients=1, size=1, seconds=arguments.seconds / 2)
        with service(arguments.archive, *options) as port:
            many = load(
                port,
                inputs,
                expected,
                clients=arguments.clients,
                size=arguments.inputs,
                seconds=arguments.seconds,
            )
            statuses = {name: status(port, body) for name, body in BAD.items()}
        add_load(results, one_client, number, alone)
        add_load(results, clients, number, many)
        bad = {name: code for name, code in statuses.items() if not 400 <= code < 500}
        print(f"{len(statuses)} kinds of bad requests, not 4xx: {bad or 'none'}", flush=True)
    show(results.ratios([(clients, one_client)], of=RATE), results.means())
    print(f"{size_of_text(sentences)} Load average {os.getloadavg()[0]:.1f}.")


@contextmanager
def service(archive: str, *options: str) -> Iterator[int]:
    """
    Runs a service, and yields its port.

    # Raises
    `ConfigurationError`: it does not start, or does not end well.
    """
    command = [sys.executable, "-m", "allennlp", "elmo", "serve", f"ner={archive}", "--port", "0", *options]
    environment = os.environ | {"ALLENNLP_LOG_LEVEL": "WARNING"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        # Other addresses come before it.
        match = next(filter(None, (re.search(r":(\d+)/docs", line) for line in process.stdout)), None)
        if match is None:
            raise ConfigurationError(f"{' '.join(command)} printed no address")
        try:
            yield int(match[1])
        finally:
            process.send_signal(signal.SIGTERM)
        if process.wait() != 128 + signal.SIGTERM:
            raise ConfigurationError(f"{' '.join(command)} ended with exit code {process.returncode}")


def load(
    port: int, inputs: list[dict[str, Any]], expected: list[Any], *, clients: int, size: int, seconds: float
) -> Load:
    """Clients that ask, each for one request after the other, from offsets of their own."""
    taken: list[float] = []
    differences: list[float] = []
    errors: list[int] = []
    end = time.perf_counter() + seconds
    turns = count()

    def ask() -> None:
        with closing(HTTPConnection("127.0.0.1", port)) as connection:
            while (began := time.perf_counter()) < end:
                first = next(turns) * size
                indices = [i % len(inputs) for i in range(first, first + size)]
                batch = [inputs[i] for i in indices]
                connection.request("POST", PATH, json.dumps(batch if size > 1 else batch[0]))
                response = connection.getresponse()
                answer = json.loads(response.read())
                taken.append(time.perf_counter() - began)
                if response.status != 200:
                    errors.append(response.status)
                else:
                    answers = answer if size > 1 else [answer]
                    differences.append(difference(answers, [expected[i] for i in indices]))

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = size * len(taken) / (time.perf_counter() - began)
    return Load(rate, sorted(taken), len(errors), max(differences))


def difference(found: Any, expected: Any) -> float:
    """The largest of all numbers in JSON; infinite if anything else differs."""
    if isinstance(expected, float) and isinstance(found, float):
        return abs(found - expected)
    if isinstance(expected, dict) and isinstance(found, dict) and found.keys() == expected.keys():
        return max((difference(found[key], expected[key]) for key in expected), default=0.0)
    if isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        return max(map(difference, found, expected), default=0.0)
    return 0.0 if found == expected else float("inf")


def status(port: int, body: bytes) -> int:
    """Returns the HTTP status of the answer to a body."""
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("POST", PATH, body)
        return connection.getresponse().status


def add_load(results: Results, name: str, number: int, measured: Load) -> None:
    """Adds the measurements of a round as rows."""
    times = measured.seconds
    middle, late = (1000 * times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
    values = {
        "requests": len(times),
        RATE: measured.rate,
        "p50, ms": middle,
        "p99, ms": late,
        "errors": measured.errors,
        "largest difference": measured.difference,
    }
    for metric, value in values.items():
        results.add(name, number, metric, value)
