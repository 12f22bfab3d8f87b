"""Shards that are done here, and by workers on a real Ray."""

import os
import signal
import time
from pathlib import Path

import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.jobs import engines
from elmo_tasks.jobs.engines import Advance, Here, Job, OnRay, run_job
from elmo_tasks.jobs.places import Folder
from elmo_tasks.jobs.runs import Outcome, Reading, Shard
from elmo_tasks.jobs.sinks import JsonLinesSink


class Stumble(Job):
    """Writes down who did which shard. It dies at the first attempts of shard 1, and shard 2 has an error."""

    def __init__(self, folder: Path, deaths: int) -> None:
        super().__init__(
            reading=Reading(str(folder)), sink=JsonLinesSink(Folder(f"{folder}/part"), f"{folder}/out")
        )
        self.folder, self.deaths = folder, deaths
        (folder / "text").write_text("0\n1\n2\n3\n4\n")

    nbytes = 0
    on_gpu = False

    def worker(self) -> "Stumble":
        return self

    def __call__(self, shard: Shard, advance: Advance) -> Outcome:
        (self.folder / f"{shard.number}.{time.time_ns()}").touch()
        if shard.number == 1 and len(list(self.folder.glob("1.*"))) <= self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        with self.sink.part(shard) as write:
            write(b"%d\n" % shard.number)
            if shard.number == 2:
                return {"number": 2, "error": "shard 2 is bad"}
        return self.sink.done({"number": shard.number})

    def run(self, engine: Here | OnRay) -> None:
        run_job(self, engine, name="stumble", sources=["text"], settings={}, shard_bytes=1)


@pytest.mark.parametrize("ray", [False, True])
def test_the_results_before_an_error(ray, request, tmp_path):
    if ray:
        request.getfixturevalue("local_ray")
    with pytest.raises(ElmoError, match=r"^shard 2 is bad$"):
        Stumble(tmp_path, deaths=int(ray)).run(OnRay(workers=1) if ray else Here())
    assert (tmp_path / "out").read_text() == "0\n1\n2\n"
    attempts = sorted(int(file.name.split(".")[0]) for file in tmp_path.glob("?.*"))
    # On Ray, the worker that died is replaced.
    assert attempts[: 4 if ray else None] == ([0, 1, 1, 2] if ray else [0, 1, 2])


def test_ray_counts_its_workers_and_what_they_need(local_ray, tmp_path):
    with OnRay().start(Stumble(tmp_path, deaths=0)) as pool:
        assert pool.workers == 2
        shards = [Shard(n, "text", 0, 0, 1, 1, 0, 1, "") for n in (0, 3)]
        Folder(f"{tmp_path}/part").create()
        done = list(pool.outcomes(shards, print))
    assert sorted(outcome["number"] for outcome in done) == [0, 3]
    assert all(outcome["peak_memory"] > 1 << 20 for outcome in done)


def test_a_shard_that_kills_its_workers_ends_the_run(local_ray, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "RETRIES", 1)
    with pytest.raises(ElmoError, match=r"^2 workers died") as raised:
        Stumble(tmp_path, deaths=99).run(OnRay(workers=1))
    assert len(list(tmp_path.glob("1.*"))) == 2
    assert "--resume" in raised.value.__notes__[0]
