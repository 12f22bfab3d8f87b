"""`allennlp elmo serve --replicas`, on a real Ray."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("ray.serve", reason="Ray is not installed: make install EXTRAS='ray'")
httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi", reason="the extra serve is not installed")

from elmo_tasks.common.ray_cluster import connected, ray
from elmo_tasks.serving.models import open_predictor
from tests.commands.serve_test import address_in
from tests.forked import Command

pytestmark = pytest.mark.slow

WORDS = ["Ana", "flew", "to", "Rome", "."]
INPUTS = [{"tokens": WORDS[start:end]} for start in range(5) for end in range(start, 6)]


def processor_times(application: str) -> dict[int, int]:
    """Returns the processor time of each replica by its process, in ticks."""
    times = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"ray::ServeReplica:{application}"[:27].encode() in (path / "cmdline").read_bytes():
                times[int(path.name)] = processor_time(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return times


def processor_time(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_two_replicas_on_a_cluster(cluster_address, run, tmp_path):
    """Both answer, as `predict` does; after SIGTERM they have ended, and the cluster has not."""
    predictor = open_predictor(str(run))
    tags = [predictor.predict_json(one)["tags"] for one in INPUTS]
    log, name = tmp_path / "log", f"mine{os.getpid()}"
    command = ["elmo", "serve", f"{name}={run}", "--port", 0, "--batch-size", 2]
    service = Command([*command, "--replicas", 2, "--ray-address", cluster_address], log)
    url = f"http://{address_in(log)}/predict/{name}"

    def answer(content):
        return httpx.post(url, json=content, timeout=30)

    assert answer(INPUTS[0]).status_code == 200
    # The second may still be at its start.
    deadline = time.monotonic() + 60
    while len(before := processor_times(name)) < 2:
        assert time.monotonic() < deadline, before
        time.sleep(0.2)
    with ThreadPoolExecutor(8) as clients:
        responses = list(clients.map(answer, INPUTS * 10))
        assert [response.json()["tags"] for response in responses] == tags * 10
        # By their numbers: Ray changes a replica's title during a call, so that it may not be found by it.
        worked = [processor_time(process) - ticks for process, ticks in before.items()]
        assert len(worked) == 2
        assert min(worked) > 0.2 * max(worked)
        refused = answer([INPUTS[0], {}])
        assert refused.status_code == 422
        assert refused.json()["error"].startswith("input 2 of 2: ")
        in_flight = clients.submit(answer, INPUTS * 8)
        time.sleep(0.1)
        os.kill(service.pid, signal.SIGTERM)
        assert [one["tags"] for one in in_flight.result().json()] == tags * 8
    assert service.finish() == 128 + signal.SIGTERM, log.read_text()
    assert log.read_text().splitlines()[-1] == "terminated"
    assert processor_times(name) == {}
    with connected(cluster_address, cpus=1):
        assert ray.available_resources()["CPU"] == 2
