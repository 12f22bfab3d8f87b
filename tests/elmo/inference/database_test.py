import fcntl
import os
import threading

import pytest

from elmo_tasks.elmo.inference import activations as module
from elmo_tasks.elmo.inference.activations import FILE, DamagedError, Database, only_writer, set_aside

RECORDS = {b"one": b"1", b"empty": b"", b"large": bytes(range(256)) * 100}
MAP_SIZE = 1 << 20


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "database"


def opened(folder) -> Database:
    with only_writer(folder.parent):
        return Database.at(folder, MAP_SIZE)


def write(folder, records) -> None:
    with only_writer(folder.parent):
        Database.at(folder, MAP_SIZE).write(records)


def read(database, keys=(*RECORDS, b"none")):
    with database.reading() as get:
        return {key: None if get(key) is None else bytes(get(key)) for key in keys}


def test_records_are_read_back(folder):
    write(folder, RECORDS)
    assert Database.opened(folder) is None
    assert read(opened(folder)) == {**RECORDS, b"none": None}
    write(folder, {b"one": b"2"})
    assert read(opened(folder)) == {**RECORDS, b"one": b"2", b"none": None}


def test_a_file_is_opened_once_whatever_its_path(folder, tmp_path):
    database = opened(folder)
    (tmp_path / "link").symlink_to(folder)
    assert opened(tmp_path / "link") is Database.opened(folder) is database
    del database
    assert Database.opened(folder) is None
    assert Database.opened(tmp_path / "nowhere") is None


def test_a_folder_that_was_moved(folder, tmp_path):
    database = opened(folder)
    database.write(RECORDS)
    moved = folder.rename(tmp_path / "moved")
    database.close()
    assert Database.opened(moved) is database
    assert read(database) == {**RECORDS, b"none": None}


@pytest.mark.parametrize("first", [1, 1000])
def test_the_map_grows_with_the_file(folder, monkeypatch, first):
    """By one record that is larger than it, or by many."""
    monkeypatch.setattr(module, "_MIN_MAP", 1 << 16)
    monkeypatch.setattr(module, "_MAX_MAP", 1 << 30)
    records = {b"%d" % number: os.urandom(1_000_000 // first) for number in range(first)}
    with only_writer(folder.parent):
        database = Database.at(folder, 1 << 16)
        database.write(records)
    assert read(database, records) == records


def test_nothing_is_written_where_the_map_cannot_grow(folder, monkeypatch):
    for name in ("_MIN_MAP", "_MAX_MAP"):
        monkeypatch.setattr(module, name, 1 << 16)
    write(folder, {b"one": b"1"})
    with pytest.raises(module.lmdb.MapFullError):
        write(folder, {b"one": b"2", b"large": bytes(1 << 20)})
    assert read(opened(folder), [b"one", b"large"]) == {b"one": b"1", b"large": None}


@pytest.mark.parametrize("content", [b"garbage" * 5000, bytes(20_000)])
def test_a_damaged_file_is_not_opened(folder, content):
    write(folder, RECORDS)
    (folder / FILE).write_bytes(content)
    with pytest.raises(DamagedError):
        opened(folder)
    aside = set_aside(folder)
    assert aside.parent == folder.parent
    assert aside.name.startswith(f"{folder.name}.damaged-")
    assert (aside / FILE).read_bytes() == content
    assert read(opened(folder), RECORDS) == dict.fromkeys(RECORDS)


def test_an_empty_file_is_a_new_database(folder):
    folder.mkdir()
    (folder / FILE).touch()
    assert read(opened(folder), RECORDS) == dict.fromkeys(RECORDS)


def test_a_lock_for_one_writer(tmp_path):
    """Of the threads of this process, and among processes; an error lets go of it, too."""

    def is_free():
        with open(tmp_path / ".lock", "ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    order = []

    def write():
        with only_writer(tmp_path):
            order.append("other")

    other = threading.Thread(target=write)

    def fail():
        with only_writer(tmp_path):
            other.start()
            other.join(0.05)
            assert not is_free()
            order.append("first")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    other.join(10)
    assert order == ["first", "other"]
    assert is_free()


def test_both_sides_of_a_fork_write(folder):
    database = opened(folder)
    with only_writer(folder.parent):
        database.write({b"before": b"1"})
    process = os.fork()
    if not process:
        status = 1
        try:
            with only_writer(folder.parent):
                database.write({b"child": b"2"})
            status = 0 if read(database, [b"before"]) == {b"before": b"1"} else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    with only_writer(folder.parent):
        database.write({b"parent": b"3"})
    keys = [b"before", b"child", b"parent"]
    assert list(read(database, keys).values()) == [b"1", b"2", b"3"]
