"""A job whose workers die, and in which a shard has an error."""

import errno
import os
import signal
import time
from pathlib import Path

import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.jobs.engines import Job, LocalEngine, RayEngine, run_job
from elmo_tasks.jobs.locations import Folder
from elmo_tasks.jobs.runs import Content, Outcome, Reading, Shard
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

    def open(self) -> None:
        pass

    def __call__(self, shard: Shard, contents: list[Content]) -> Outcome:
        (self.folder / f"{shard.number}.{time.time_ns()}").touch()
        if shard.number == 1 and len(list(self.folder.glob("1.*"))) <= self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        with self.sink.part(shard) as write:
            write(b"%d\n" % shard.number)
            if shard.number == 2:
                return {"number": 2, "error": "shard 2 is bad"}
        return self.sink.done(shard, {})

    def run(self, engine: LocalEngine | RayEngine) -> None:
        run_job(self, engine, name="stumble", sources=["text"], settings={}, shard_bytes=1)


class FullDisk(Stumble):
    """The disk is full in the middle of shard 1, until there is a file `room`."""

    def __call__(self, shard: Shard, contents: list[Content]) -> Outcome:
        with self.sink.part(shard) as write:
            write(b"%d\n" % shard.number)
            if shard.number == 1 and not (self.folder / "room").exists():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.sink.done(shard, {})


def attempts_before_an_error(engine: LocalEngine | RayEngine, folder: Path, deaths: int) -> list[int]:
    """Returns the shard of each attempt, in order; the results before the error are written."""
    with pytest.raises(ElmoError, match=r"^shard 2 is bad\b"):
        Stumble(folder, deaths).run(engine)
    assert (folder / "out").read_text() == "0\n1\n2\n"
    return sorted(int(file.name.split(".")[0]) for file in folder.glob("?.*"))
