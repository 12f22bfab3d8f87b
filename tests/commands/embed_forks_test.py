"""`allennlp elmo embed` of longer texts, in a process for each thread."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elmo_tasks.commands import embed
from elmo_tasks.jobs.engines import CAN_FORK
from tests.commands.embed_runs import partial
from tests.commands.texts import TEXT
from tests.conftest import environment

pytest.importorskip("h5py")
pytestmark = pytest.mark.skipif(not CAN_FORK, reason="forks are for Linux")


@pytest.mark.usefixtures("small_default")
@pytest.mark.parametrize("number", [2, 3])
def test_the_file_is_that_of_one_process(elmo, source, tmp_path, monkeypatch, number):
    monkeypatch.setattr(embed, "SHARD_BYTES", 200)
    source.write_text(TEXT * 20, encoding="utf-8")
    engines, run_job = [], embed.run_job
    monkeypatch.setattr(
        embed, "run_job", lambda job, engine, **more: (engines.append(engine), run_job(job, engine, **more))
    )
    files = []
    for threads in (1, number):
        monkeypatch.setattr(embed, "get_num_threads", lambda threads=threads: threads)
        output = tmp_path / f"{threads}.hdf5"
        assert elmo("embed", source, output) == 0
        files.append(output.read_bytes())
    assert files[0] == files[1]
    assert [getattr(engine, "workers", 1) for engine in engines] == [1, number]


@pytest.mark.usefixtures("small_default")
def test_a_short_text_stays_in_one_process(elmo, source, output, monkeypatch):
    monkeypatch.setattr(embed, "get_num_threads", lambda: 2)
    monkeypatch.setattr(embed, "ForkEngine", None)
    assert elmo("embed", source, output) == 0


def children(pid: int) -> set[str]:
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def runs(pid: str) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_no_fork_outlives_a_killed_command(tmp_path):
    source, output = tmp_path / "in.txt", tmp_path / "out.hdf5"
    source.write_text(TEXT * 1500, encoding="utf-8")
    command = [sys.executable, "-m", "allennlp", "elmo", "embed", source, output, "--layers", "top"]
    two = environment() | {"OMP_NUM_THREADS": "2"}
    process = subprocess.Popen(command, env=two, stderr=subprocess.DEVNULL)
    while not list(partial(output).glob("_part-*.json")):
        assert process.poll() is None
        time.sleep(0.01)
    forks = children(process.pid)
    assert len(forks) == 2
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    waited = time.monotonic() + 60
    while any(map(runs, forks)):
        assert time.monotonic() < waited
        time.sleep(0.01)
    subprocess.run([*command, "--resume"], env=two, check=True)
    one = tmp_path / "one.hdf5"
    subprocess.run([one if part is output else part for part in command], env=environment(), check=True)
    assert output.read_bytes() == one.read_bytes()
