import multiprocessing
import os
import signal
import threading
import time

import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.jobs import engines
from elmo_tasks.jobs.engines import CAN_FORK, ForkEngine, Job, LocalEngine
from elmo_tasks.jobs.runs import Content, Outcome, Shard
from tests.jobs.stumbling import Stumble, attempts_before_an_error

forks = pytest.mark.skipif(not CAN_FORK, reason="forks are for Linux")


def test_the_results_before_an_error(tmp_path):
    assert attempts_before_an_error(LocalEngine(), tmp_path, deaths=0) == [0, 1, 2]


@forks
def test_the_results_before_an_error_in_forks(tmp_path):
    assert attempts_before_an_error(ForkEngine(2), tmp_path, deaths=0)[:3] == [0, 1, 2]
    assert not multiprocessing.active_children()


@forks
def test_a_fork_that_is_killed_ends_the_run_which_can_be_resumed(tmp_path):
    with pytest.raises(ElmoError, match=r"^a process of this run was killed.*OMP_NUM_THREADS=1"):
        Stumble(tmp_path, deaths=1).run(ForkEngine(2))
    assert not multiprocessing.active_children()
    with pytest.raises(ElmoError, match=r"^shard 2 is bad\b"):
        Stumble(tmp_path, deaths=1).run(ForkEngine(2))
    assert (tmp_path / "out").read_text() == "0\n1\n2\n"


@forks
def test_a_fork_that_has_not_begun(tmp_path, monkeypatch):
    """It has the handler of this process for SIGTERM."""
    begin_fork = engines._begin_fork

    def begin(job: Job) -> None:
        try:
            (tmp_path / "begun").touch(exist_ok=False)
        except FileExistsError:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(1000)
        begin_fork(job)

    monkeypatch.setattr(engines, "_begin_fork", begin)
    with pytest.raises(ElmoError, match=r"^shard 2 is bad\b"):
        Stumble(tmp_path, deaths=0).run(ForkEngine(2))
    assert not multiprocessing.active_children()


class Endless(Stumble):
    def __call__(self, shard: Shard, contents: list[Content]) -> Outcome:
        (self.folder / f"{shard.number}.{os.getpid()}").touch()
        time.sleep(1000)
        raise AssertionError


@forks
def test_forks_end_when_the_run_is_interrupted(tmp_path):
    def interrupt() -> None:
        while len(list(tmp_path.glob("?.*"))) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        Endless(tmp_path, deaths=0).run(ForkEngine(2))
    assert not multiprocessing.active_children()
