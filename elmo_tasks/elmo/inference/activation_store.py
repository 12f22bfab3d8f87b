"""
The sentences of `activations` on disk, in a database of LMDB.

LMDB (https://lmdb.readthedocs.io) locks the database between the processes of one machine, but not over a
network file system. A killed process leaves all sentences of a batch or none.
"""

import json
import logging
import mmap
import os
import weakref
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import numpy as np

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import atomic_file
from elmo_tasks.common.machine import CACHES_LOCK

logger = logging.getLogger(__name__)

MAP_SIZE = 1 << 42
"""The address space of a database in bytes. A process that gets less encodes each sentence."""
MAX_READERS = 1024
_DATA, _ABOUT, _CHECKSUM_BYTES = "data.mdb", "activations.json", 4
_PAGES_OF_TREE = 10
"""The pages above a record that writing it copies or splits, at most."""
_DAMAGED = (lmdb.InvalidError, lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.VersionMismatchError)


class ActivationStore:
    """
    The sentences of one source on disk: of a biLM, a start state and a dtype, as `about` describes it. This
    database and the others in the folder above may take `limit` bytes together.
    """

    def __init__(self, folder: Path, about: dict[str, Any], limit: float) -> None:
        self.folder = folder
        self._about, self._limit = about, limit
        self._environment: lmdb.Environment | None = None  # keeps it open
        self._reading = self._writing = True

    def read(self, arrays: dict[bytes, np.ndarray]) -> None:
        """Fills the arrays `(tokens, features)` of the keys that are stored, and removes these keys."""
        if self._reading:
            with CACHES_LOCK, self._errors(write=False), self._begin(write=False) as transaction:
                for key, array in list(arrays.items()):
                    value = transaction.get(key)
                    if value is not None:
                        self._copy(key, value, array)
                        del arrays[key]

    def write(self, arrays: dict[bytes, np.ndarray]) -> None:
        if self._writing:
            with CACHES_LOCK, self._errors(write=True), self._begin(write=True) as transaction:
                if self._has_room(arrays.values()):
                    for key, values in arrays.items():
                        transaction.put(key, values.tobytes() + self._checksum(key, values))

    def _begin(self, *, write: bool) -> lmdb.Transaction:
        self._environment = environment_of(self.folder, self._about)
        return self._environment.begin(write=write, buffers=True)

    @contextmanager
    def _errors(self, *, write: bool) -> Iterator[None]:
        """If the database cannot be opened, read or written, the run continues without it."""
        try:
            yield
        except _DAMAGED as error:
            raise self._damaged(str(error)) from error
        except (OSError, lmdb.Error) as error:
            self._reading = self._reading and write
            self._stop_writing(f"cannot {'write to' if write else 'read'} {self.folder}: {error}")

    def _copy(self, key: bytes, value: bytes | memoryview, array: np.ndarray) -> None:
        values, checksum = np.frombuffer(value[:-_CHECKSUM_BYTES], np.uint8), value[-_CHECKSUM_BYTES:]
        if values.nbytes != array.nbytes or self._checksum(key, values) != checksum:
            raise self._damaged("a checksum differs")
        array[:] = values.view(array.dtype).reshape(array.shape)

    def _checksum(self, key: bytes, values: np.ndarray) -> bytes:
        head = zlib.crc32(self.folder.name.encode() + key)
        return zlib.crc32(values.data, head).to_bytes(_CHECKSUM_BYTES, "little")

    def _damaged(self, reason: str) -> ElmoError:
        return ElmoError(
            f"activations: {self.folder / _DATA} is damaged ({reason}); delete {self.folder}, and its "
            "sentences are encoded again"
        )

    def _has_room(self, arrays: Iterable[np.ndarray]) -> bool:
        more = mmap.PAGESIZE * sum(array.nbytes // mmap.PAGESIZE + 2 + _PAGES_OF_TREE for array in arrays)
        total = sum((about.parent / _DATA).stat().st_size for about in self.folder.parent.glob(f"*/{_ABOUT}"))
        if total + more <= self._limit:
            return True
        self._stop_writing(
            f"{self.folder.parent} holds {total / 1e9:.3g} GB, and {more / 1e9:.3g} GB more would go beyond "
            f"limit_gb, {self._limit / 1e9:.3g}; {_ABOUT} in each folder below it says what that is of"
        )
        return False

    def _stop_writing(self, reason: str) -> None:
        if self._writing:
            self._writing = False
            logger.warning("activations: %s. The run continues, but writes nothing more.", reason)


_environments: weakref.WeakValueDictionary[tuple[int, int], lmdb.Environment] = weakref.WeakValueDictionary()
"""The open environments by device and inode, since a folder may be deleted and made again."""
_process = os.getpid()


def environment_of(folder: Path, about: dict[str, Any]) -> lmdb.Environment:
    """
    Opens a database, or makes it and describes it by `about`. LMDB allows each process one environment for a
    file, and a fork none of its parent's. A fork waits for transactions, which hold CACHES_LOCK, since an
    environment in use cannot be closed.
    """
    global _process
    with CACHES_LOCK:
        if _process != os.getpid():
            for inherited in _environments.values():
                inherited.close()
            _environments.clear()
            _process = os.getpid()
        folder.mkdir(parents=True, exist_ok=True)
        data = folder / _DATA
        environment = _environments.get(_file_key(data)) if data.exists() else None
        if environment is None:
            # `sync` writes a batch before the meta page that shows it. Without `metasync`, a power cut may
            # lose that page, and the last batch with it.
            environment = lmdb.open(
                str(folder), MAP_SIZE, sync=True, metasync=False, max_readers=MAX_READERS, max_spare_txns=0
            )
            environment.reader_check()  # frees the slots of killed processes
            _extend(environment, data)
            if not (folder / _ABOUT).exists():
                with atomic_file(folder / _ABOUT, partial=f"{_ABOUT}.{os.getpid()}") as file:
                    file.write(json.dumps(about, indent=2).encode())
            _environments[_file_key(data)] = environment
        return environment


def _file_key(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _extend(environment: lmdb.Environment, data: Path) -> None:
    """Extends a file that was cut off with zeros, since reading beyond its end would kill the process."""
    with environment.begin(write=True):  # no other process writes
        size = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
        if data.stat().st_size < size:
            os.truncate(data, size)
