"""
LMDB databases that several processes and threads share: one environment a file and process.

LMDB (https://lmdb.readthedocs.io) never writes to a page in use, and a transaction becomes visible by one
write of a meta page: a process killed at any moment leaves all of a batch or nothing. But LMDB trusts its
file, and a damaged page may crash the process. So the pages are verified before a file is opened; checksums
of the values are the caller's.
"""

import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import lmdb
from filelock import lock_descriptor, unlock_descriptor
from lmdb.verify import VerifyError, verify

FILE = "data.mdb"
MAX_READERS = 1024
"""Read transactions at once, of all processes together."""
_SMALLEST_MAP, _LARGEST_MAP = 1 << 24, 1 << 45
_POLL = 0.005
"""Seconds between two attempts to get the lock of another process."""

_databases: WeakValueDictionary[tuple[int, int], "Database"] = WeakValueDictionary()
"""The open files by device and inode, since a process must not open one twice, by whatever path."""
_exclusive = threading.RLock()
"""Held by the one thread of this process that opens, verifies or writes."""


class Database:
    """
    An open file; made by `Database.at`.

    # Parameters

    folder : of the file; made if need be.
    map_size : bytes of address space. It is halved where the process gets no more, and grows with the file.
    """

    def __init__(self, folder: Path, map_size: int) -> None:
        self._folder = folder
        # Held by every transaction, since all of them must have ended before the map can grow.
        self.lock = threading.Lock()
        self._environment: lmdb.Environment | None = None
        self._map_size = map_size
        environment = self._open()
        environment.reader_check()  # the slots of killed processes
        # Behind the end of a file that was cut, reading would kill the process; zeros have no valid checksum.
        pages, path = environment.info()["last_pgno"] + 1, folder / FILE
        os.truncate(path, max(path.stat().st_size, pages * environment.stat()["psize"]))

    @classmethod
    def opened(cls, folder: Path) -> "Database | None":
        """The database whose file is in a folder now, if this process has opened it."""
        try:
            database = _databases.get(_key(folder))
        except FileNotFoundError:
            return None
        if database is not None:
            database._folder = folder  # it may have been moved
        return database

    @classmethod
    def at(cls, folder: Path, map_size: int) -> "Database":
        """
        The database in a folder, opened or made if need be; to be called within `only_writer`.

        # Raises
        `DamagedError`, `lmdb.Error` or `OSError`.
        """
        database = cls.opened(folder)
        if database is None:
            _verify(folder / FILE)
            database = cls(folder, map_size)
            _databases[_key(folder)] = database
        return database

    @contextmanager
    def reading(self) -> Iterator[Callable[[bytes], Any]]:
        """
        A function from a key to a memoryview of its value, or `None`, for use within the `with` block. Raises
        `lmdb.Error`.
        """
        with self.lock, self._begin(write=False) as transaction:
            yield transaction.get

    def write(self, records: Mapping[bytes, bytes]) -> None:
        """
        Writes all records in one transaction, in the place of older ones; to be called within `only_writer`.

        # Raises
        `lmdb.Error`, and then nothing of them is written.
        """
        with self.lock:
            while True:
                try:
                    with self._begin(write=True) as transaction:
                        for record in records.items():
                            transaction.put(*record)
                    return
                except lmdb.MapFullError:
                    size = self._map_size
                    self._grow(2 * size)
                    if self._map_size <= size:
                        raise

    def close(self) -> None:
        """Closes the file until the next transaction."""
        if self._environment is not None:
            self._environment.close()
            self._environment = None

    def _begin(self, write: bool) -> lmdb.Transaction:
        try:
            return self._open().begin(write=write, buffers=True)
        except lmdb.MapResizedError:  # another process has written beyond our map
            self._grow(2 * (self._folder / FILE).stat().st_size)
            return self._open().begin(write=write, buffers=True)

    def _grow(self, map_size: int) -> None:
        self.close()
        self._map_size = max(self._map_size, map_size)
        self._open()

    def _open(self) -> lmdb.Environment:
        while self._environment is None:
            # A multiple of the page size
            self._map_size = max(_SMALLEST_MAP, min(self._map_size, _LARGEST_MAP)) & ~0xFFFF
            try:
                # `sync` writes a batch before the meta page that shows it, so that nothing is torn; without
                # `metasync` that page itself may be lost in a power cut, and the last batch with it.
                self._environment = lmdb.open(
                    str(self._folder),
                    self._map_size,
                    sync=True,
                    metasync=False,
                    max_readers=MAX_READERS,
                    max_spare_txns=0,
                )
            except lmdb.MemoryError:
                if self._map_size <= _SMALLEST_MAP:
                    raise
                self._map_size //= 2
        return self._environment


class DamagedError(Exception):
    """The pages of a file are not those of a whole database."""


def set_aside(folder: Path) -> Path:
    """Renames the folder of a damaged database, so that a new one can be made."""
    return folder.rename(folder.with_name(f"{folder.name}.damaged-{uuid.uuid4().hex[:8]}"))


@contextmanager
def only_writer(root: Path) -> Iterator[None]:
    """One thread of all processes at a time; a killed process leaves no lock. Raises `OSError`."""
    with _exclusive, open(root / ".lock", "ab") as file:
        lock_descriptor(file.fileno(), poll_interval=_POLL)
        try:
            yield
        finally:
            unlock_descriptor(file.fileno())


def _verify(path: Path) -> None:
    """Raises `DamagedError`. Values are not read. A file without content is a new one."""
    if not path.exists() or not path.stat().st_size:
        return
    try:
        findings = verify(str(path), subdir=False)
    except VerifyError as error:
        raise DamagedError(str(error)) from error
    if findings:
        raise DamagedError(findings[0])


def _key(folder: Path) -> tuple[int, int]:
    status = (folder / FILE).stat()
    return status.st_dev, status.st_ino


_forking: list[Database] = []


def _before_fork() -> None:
    """LMDB's environments must not go through a fork: both sides open them again."""
    _exclusive.acquire()
    _forking.extend(_databases.values())
    for database in _forking:
        database.lock.acquire()
        database.close()


def _after_fork() -> None:
    while _forking:
        _forking.pop().lock.release()
    _exclusive.release()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
