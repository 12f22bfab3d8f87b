import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from elmo_tasks.elmo import Elmo, database
from elmo_tasks.elmo.database import Database
from tests.conftest import environment
from tests.elmo.activation_runs import BATCHES, DISTINCT, Run, assert_same, databases, expected, fill
from tests.elmo.files import SENTENCES, batch

NUMBERED = [[f"number{number}", "of", "many", "sentences"] for number in range(60)]

# Several processes and threads

WORKER = """
import json, resource, sys
from elmo_tasks.elmo import Elmo
from tests.elmo.files import batch

folder, files, sentences, limits = json.loads(sys.argv[1])
elmo = Elmo(activations=folder, **files)
elmo(batch([["warm"]]))
for name, more in limits.items():
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    value = used + more if name == "RLIMIT_AS" else more
    resource.setrlimit(getattr(resource, name), (value, value))
print("ready", flush=True)
for words in sentences:
    elmo(batch([words]))
print("done", flush=True)
"""


def start_worker(folder, files, sentences, **limits):
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, json.dumps([str(folder), files, sentences, limits])],
        env=environment(),
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(worker):
    output, errors = worker.communicate(timeout=120)
    assert worker.returncode == 0, errors
    assert output.endswith("done\n")
    return errors


def test_three_processes_write_at_once(files, folder):
    orders = [random.Random(seed).sample(NUMBERED, 40) for seed in range(3)]
    for worker in [start_worker(folder, files, order) for order in orders]:
        finish(worker)
    run = Run(files, folder)
    written = [words for words in NUMBERED if any(words in order for order in orders)]
    assert_same([run.layers(written)], [Run(files, None).layers(written)])
    assert run.close() == 0


def test_eight_threads(files, folder, warnings):
    """Four with an `Elmo` of their own, and four with one in common."""
    elmos = [Elmo(activations=str(folder), **files) for _ in range(5)]
    elmos += [elmos[-1]] * 3
    wanted = Elmo(**files)(batch(NUMBERED)).input
    failures = []

    def work(number):
        try:
            for _ in range(3):
                rows = random.Random(number).sample(range(len(NUMBERED)), len(NUMBERED))
                for start in range(0, len(rows), 6):
                    some = rows[start : start + 6]
                    found = elmos[number](batch([NUMBERED[row] for row in some])).input
                    torch.testing.assert_close(found, wanted[some], atol=1e-5, rtol=0)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)
    assert not warnings()
    del elmos
    run = Run(files, folder)
    run.layers(NUMBERED)
    assert run.close() == 0


def test_killed_while_writing(files, folder, warnings):
    """At moments that nobody has chosen; the next process finds all that a batch before had written."""
    many = [[f"{word}{number}" for word in "abcd"] for number in range(3000)]
    for moment in range(4):
        worker = start_worker(folder, files, many[moment * 700 :])
        assert worker.stdout.readline() == "ready\n"
        time.sleep(random.Random(moment).random() * 0.15)
        worker.send_signal(signal.SIGKILL)
        worker.communicate(timeout=60)
        assert worker.returncode == -signal.SIGKILL
        run = Run(files, folder)
        some = many[moment * 700 : moment * 700 + 200]
        assert_same([run.layers(some)], [Run(files, None).layers(some)])
        assert run.close() < 200
    assert not warnings()


def test_sees_what_another_has_written_in_the_meantime(files, folder):
    one, other = Run(files, folder), Run(files, folder)
    one.layers([SENTENCES[0]])
    finish(start_worker(folder, files, [SENTENCES[3]]))
    other.layers([SENTENCES[0]])
    assert other.close() == 0
    one.layers([SENTENCES[3]])
    assert one.close() == 1


def test_fork(files, folder, warnings):
    run = Run(files, folder)
    run.layers(NUMBERED[:20])
    process = os.fork()
    if not process:
        status = 1
        try:
            run.layers(NUMBERED[:40])
            status = 0 if sum(run.encoded) == 40 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert_same([run.layers(NUMBERED[:40])], [Run(files, None).layers(NUMBERED[:40])])
    run.layers(NUMBERED)
    assert run.close() == 40
    assert not warnings()


def test_a_map_too_small_grows(files, folder, monkeypatch, warnings):
    """Our own, and that of another process, when the file has outgrown it."""
    monkeypatch.setattr(database, "_SMALLEST_MAP", 1 << 16)
    monkeypatch.setattr(database, "_LARGEST_MAP", 1 << 16)
    run = Run(files, folder)
    run.layers(NUMBERED[:2])
    monkeypatch.setattr(database, "_LARGEST_MAP", 1 << 30)
    finish(start_worker(folder, files, NUMBERED))
    many = [[f"{word}{number}" for word in "abcdefgh"] for number in range(200)]
    assert_same([run.layers(many)], [Run(files, None).layers(many)])
    run.layers(NUMBERED)
    assert run.close() == 202
    assert fill(files, folder) == DISTINCT
    assert not warnings()


def test_little_address_space(files, folder):
    shutil.rmtree(folder, ignore_errors=True)
    errors = finish(start_worker(folder, files, NUMBERED, RLIMIT_AS=1 << 30))
    assert "nothing is written" not in errors
    run = Run(files, folder)
    run.layers(NUMBERED)
    assert run.close() == 0


def test_full_disk(files, folder, warnings):
    """As far as a limit for files looks like one."""
    errors = finish(start_worker(folder, files, NUMBERED, RLIMIT_FSIZE=60_000))
    assert errors.count("From here on nothing is written, and the run goes on.") == 1
    assert "cannot write to" in errors
    run = Run(files, folder)
    assert_same([run.layers(NUMBERED)], [Run(files, None).layers(NUMBERED)])
    assert 0 < run.close() < len(NUMBERED)
    assert not warnings()


# Damage


def test_flipped_bit_in_a_value(files, folder, warnings):
    fill(files, folder)
    (path,) = databases(folder)
    content = bytearray(path.read_bytes())
    # Of the longest sentence; its value lies on pages of its own, behind a header of 16 bytes.
    pages = [at for at in range(8192, len(content), 4096) if content[at + 10] == 4]
    content[pages[0] + 16 + 100] ^= 1
    path.write_bytes(content)
    run = Run(files, folder)
    assert_same(run.all_layers(), expected(files))
    assert run.close() == 1
    assert f"1 sentences in {path.parent} are damaged (1 so far)" in warnings()
    assert fill(files, folder) == 0


def test_database_of_another_source_is_not_believed(files, tmp_path, warnings):
    fill(files, tmp_path / "one")
    fill(files, tmp_path / "two", dtype="float16")
    (one,), (two,) = databases(tmp_path / "one"), databases(tmp_path / "two")
    renamed = one.parent.rename(one.parent.with_name("0123456789abcdef"))
    shutil.copyfile(renamed / "data.mdb", two)
    assert fill(files, tmp_path / "two", dtype="float16") == DISTINCT
    assert "sentences in" in warnings()
    assert fill(files, tmp_path / "two", dtype="float16") == 0


DAMAGES = {
    "cut in a page": lambda content: content[:-5000],
    "half": lambda content: content[: len(content) // 2],
    "cut in the meta pages": lambda content: content[:5000],
    "garbage": lambda content: random.Random(1).randbytes(len(content)),
    "zeros": lambda content: bytes(len(content)),
    "no pages but the meta pages": lambda content: content[:8192] + bytes(len(content) - 8192),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_database_is_set_aside(files, folder, warnings, damage):
    fill(files, folder)
    (path,) = databases(folder)
    path.write_bytes(damage(path.read_bytes()))
    run = Run(files, folder)
    assert_same(run.all_layers(), expected(files))
    assert run.close() > 0
    assert fill(files, folder) == 0
    assert "damaged" in warnings()
    for aside in folder.glob("*.damaged-*"):
        assert f"the database in {path.parent} is damaged" in warnings()
        assert f"renamed to {aside}, which can be deleted" in warnings()


def test_empty_file_is_a_new_database(files, folder, warnings):
    fill(files, folder)
    databases(folder)[0].write_bytes(b"")
    assert fill(files, folder) == DISTINCT
    assert not warnings()


FLIPS = """
import json, random, sys
from pathlib import Path
import torch
from elmo_tasks.elmo import Elmo
from elmo_tasks.elmo.activations import Activations
from tests.elmo.files import batch

folder, files, sentences, path, number = json.loads(sys.argv[1])
elmo, path = Elmo(**files), Path(path)
whole, ids = path.read_bytes(), batch(sentences)
wanted = elmo.bilm.encode(ids, elmo.start)
positions = [*range(0, 160, 3), *range(4096, 4096 + 160, 3)]
positions += random.Random(0).choices(range(8192, len(whole)), k=number)
for position in positions:
    flipped = bytearray(whole)
    flipped[position] ^= 1 << position % 8
    for other in path.parent.parent.glob("*.damaged-*/*"):
        other.unlink()
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.with_name("lock.mdb").unlink(missing_ok=True)
    path.write_bytes(flipped)
    for _ in range(2):
        kept = Activations(path=folder)
        torch.testing.assert_close(kept.layers(ids, elmo.bilm, elmo.start), wanted, atol=1e-5, rtol=0)
        del kept
"""


def test_no_flipped_bit_changes_a_vector_or_ends_the_process(files, folder):
    """In the meta pages, in the tree, in lists of free pages, and in the values."""
    run = Run(files, folder)
    for start in range(0, len(NUMBERED), 10):
        run.layers(NUMBERED[start : start + 10])
    run.close()
    (path,) = databases(folder)
    arguments = json.dumps([str(folder), files, NUMBERED, str(path), 150])
    done = subprocess.run(
        [sys.executable, "-c", FLIPS, arguments],
        env=environment(),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_files_that_disappear(files, folder):
    wanted = expected(files)
    run = Run(files, folder)
    run.layers(BATCHES[0])
    shutil.rmtree(folder)
    assert_same(run.all_layers(), wanted)
    assert run.close() == 4 + DISTINCT
    assert fill(files, folder) == 0


def test_a_file_is_opened_once_in_a_process(files, folder):
    runs = [Run(files, folder) for _ in range(3)]
    for run in runs:
        run.layers(SENTENCES)
    folder_of_file = databases(folder)[0].parent
    opened = Database.opened(folder_of_file)
    assert opened is not None
    assert all(run.elmo.activations._store._database is opened for run in runs)
    for run in runs:
        run.close()
    del opened
    assert Database.opened(folder_of_file) is None
