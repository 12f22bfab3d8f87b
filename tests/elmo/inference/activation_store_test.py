import logging
import os
import random
import resource
import shutil
import signal
import threading
import time
import traceback
import uuid
from functools import partial
from unittest.mock import Mock

import pytest
import torch

lmdb = pytest.importorskip("lmdb")

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo import Elmo
from tests.elmo.activation_runs import (
    DISTINCT,
    ENCODING,
    Run,
    assert_same,
    databases,
    expected,
    fill,
    records,
)
from tests.elmo.files import batch
from tests.elmo.threads import at_once

NUMBERED = [[f"number{number}", "of", "many", "sentences"] for number in range(60)]


class Worker:
    """A forked process that encodes sentences, one a batch, and counts the batches in a pipe."""

    def __init__(self, files, folder, sentences, **limits):
        self._log = folder.parent / f"{uuid.uuid4().hex}.log"
        self.batches, written = (
            os.fdopen(end, mode) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True)
        )
        with ENCODING:
            self._process = os.fork()
        if self._process:
            written.close()
            return
        try:
            # The threads of the other process are not here.
            torch.set_num_threads(1)
            logging.getLogger().addHandler(logging.FileHandler(self._log))
            run = Run(files, folder)
            run.layers([["warm"]])
            for name, more in limits.items():
                resource.setrlimit(getattr(resource, name), (more, more))
            for words in sentences:
                run.layers([words])
                os.write(written.fileno(), b".")
            os._exit(0)
        except BaseException:
            with open(self._log, "a") as log:
                log.write(traceback.format_exc())
        finally:
            os._exit(1)

    def kill(self):
        os.kill(self._process, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1]) == -signal.SIGKILL
        self.batches.close()

    def finish(self):
        """Returns what it has logged."""
        self.batches.read()
        self.batches.close()
        status = os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])
        log = self._log.read_text()
        assert status == 0, log
        return log


def test_eight_threads(files, folder, warnings):
    elmos = [Elmo(activations=str(folder), **files) for _ in range(5)]
    elmos += [elmos[-1]] * 3
    wanted = Elmo(**files)(batch(NUMBERED)).input

    def work(number):
        for _ in range(3):
            rows = random.Random(number).sample(range(len(NUMBERED)), len(NUMBERED))
            for start in range(0, len(rows), 6):
                some = rows[start : start + 6]
                found = elmos[number](batch([NUMBERED[row] for row in some])).input
                torch.testing.assert_close(found, wanted[some], atol=1e-5, rtol=0)

    at_once(*(partial(work, number) for number in range(8)))
    assert not warnings()
    elmos.clear()
    run = Run(files, folder)
    run.layers(NUMBERED)
    assert run.close() == 0


@pytest.mark.slow
def test_killed_while_writing(files, folder, warnings):
    """At moments that nobody has chosen; the next process finds all that was written before."""
    for trial in range(8):
        chance = random.Random(trial)
        many = [[f"{word}{number}" for word in ["trial", str(trial), "and"]] for number in range(1000)]
        worker = Worker(files, folder, many)
        whole = len(worker.batches.read(chance.randrange(1, 20)))
        time.sleep(chance.random() * 0.01)
        worker.kill()
        run = Run(files, folder)
        assert_same([run.layers(many[:40])], [Run(files, None).layers(many[:40])])
        assert run.close() <= 40 - whole
    assert not warnings()


def test_forks_while_a_thread_writes(files, folder):
    run = Run(files, folder)
    thread = threading.Thread(target=lambda: [run.layers([words]) for words in NUMBERED])
    thread.start()
    workers = [Worker(files, folder, NUMBERED[number::5]) for number in range(5)]
    thread.join(60)
    assert not thread.is_alive()
    for worker in workers:
        worker.finish()
    run = Run(files, folder)
    assert_same([run.layers(NUMBERED)], [Run(files, None).layers(NUMBERED)])
    assert run.close() == 0


def test_a_database_that_cannot_be_opened(files, folder, warnings, monkeypatch):
    """As where a process gets too little address space, or the folder is read-only."""
    monkeypatch.setattr(lmdb, "open", Mock(side_effect=lmdb.MemoryError("Cannot allocate memory")))
    run = Run(files, folder)
    assert_same([run.layers(NUMBERED) for _ in range(2)], [Run(files, None).layers(NUMBERED)] * 2)
    assert warnings().count("The run continues") == 1


def test_full_disk(files, folder, warnings):
    """As far as a limit for files looks like one."""
    errors = Worker(files, folder, NUMBERED, RLIMIT_FSIZE=60_000).finish()
    assert errors.count("The run continues") == 1
    assert "cannot write to" in errors
    run = Run(files, folder)
    assert_same([run.layers(NUMBERED)], [Run(files, None).layers(NUMBERED)])
    assert 0 < run.close() < len(NUMBERED)
    assert not warnings()


DAMAGES = {
    "cut off": lambda content, value: content[:20000],
    "another file": lambda content, value: random.Random(1).randbytes(len(content)),
    "a flipped bit": lambda content, value: content.replace(value, bytes([value[0] ^ 1]) + value[1:]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_database_is_named(files, folder, damage):
    fill(files, folder)
    (path,) = databases(folder)
    value = max(records(folder).values())
    path.write_bytes(damage(path.read_bytes(), value))
    with pytest.raises(ElmoError, match=f"delete {path.parent}"):
        fill(files, folder)
    shutil.rmtree(path.parent)
    run = Run(files, folder)
    assert_same(run.all_layers(), expected(files))
    assert run.close() == DISTINCT
    assert fill(files, folder) == 0
