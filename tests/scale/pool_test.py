import os
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed: make install EXTRAS='ray'")

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.jobs import pool
from elmo_tasks.jobs.pool import Engine, Outcome, cluster, outcomes
from elmo_tasks.jobs.shards import Shard


class Work:
    """Writes down who did which shard; dies at the first attempts of shard 1."""

    def __init__(self, shared: tuple[Path, int]) -> None:
        self.folder, self.deaths = shared

    def __call__(self, shard: Shard) -> Outcome:
        (self.folder / f"{shard.number}.{time.time_ns()}").touch()
        if shard.number == 1 and len(list(self.folder.glob("1.*"))) <= self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        if shard.number == 2:
            raise ElmoError("shard 2 is bad")
        return {"sentences": shard.lines}


def shards(number: int) -> list[Shard]:
    return [Shard(n, "text", 0, 0, 1, 10 + n, 0, 1, "") for n in range(number)]


def test_a_worker_that_dies_is_replaced(local_ray, tmp_path):
    with cluster(Engine(), shared_bytes=0) as workers:
        assert workers == 2
        done = {o["number"]: o for o in outcomes(Work, (tmp_path, 1), shards(5), workers=1)}
    assert {number: outcome.get("sentences") for number, outcome in done.items()} == {
        0: 10,
        1: 11,
        2: None,
        3: 13,
        4: 14,
    }
    assert done[2]["error"] == "shard 2 is bad"
    assert all(outcome["peak_memory"] > 1 << 20 for outcome in done.values())
    attempts = [int(file.name.split(".")[0]) for file in tmp_path.iterdir()]
    assert sorted(attempts) == [0, 1, 1, 2, 3, 4]


def test_a_shard_that_kills_its_workers_ends_the_run(local_ray, tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "RETRIES", 1)
    with pytest.raises(ElmoError, match=r"^2 workers died one after another at the same shard"):
        list(outcomes(Work, (tmp_path, 99), shards(2)[1:], workers=1))
    assert len(list(tmp_path.glob("1.*"))) == 2
