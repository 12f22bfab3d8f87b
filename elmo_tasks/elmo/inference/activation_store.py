"""
The sentences of one source on disk.

| path | content |
| --- | --- |
| `PATH/SOURCE/` | an LMDB database; SOURCE is a hash of biLM, start state and dtype |
| `PATH/SOURCE/activations.json` | what SOURCE is of, for people |
| `PATH/.lock` | held by the process that writes |

A record has as its key BLAKE2b (16 bytes) of the ids of a sentence's words, and as its value float16 or
float32 `(tokens, features)`, then the CRC-32 (4 bytes) of SOURCE, key and these. Processes may share PATH on
one machine: LMDB's locks do not reach over a network file system.
"""

import json
import logging
import mmap
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lmdb
import numpy as np

from elmo_tasks.atomic_files import atomic_file
from elmo_tasks.elmo.inference.database import FILE, DamagedError, Database, only_writer, set_aside

logger = logging.getLogger(__name__)

_ABOUT, _CHECKSUM_BYTES = "activations.json", 4
_PAGES_OF_TREE = 10
"""At most so many pages above a record are copied or split when it is written."""


class ActivationStore:
    """
    The layers of sentences on disk, of one source: a biLM, a start state and a dtype.

    # Parameters

    folder : of the database.
    about : the source, for people.
    limit : bytes that all databases beside it may take together with it.
    """

    def __init__(self, folder: Path, about: dict[str, Any], limit: float) -> None:
        self.folder = folder
        self.counts: Counter[str] = Counter()
        self._about, self._limit = about, limit
        self._database: Database | None = None
        self._reading = self._writing = True

    def read(self, arrays: dict[bytes, np.ndarray]) -> None:
        """Fills the arrays of the keys that are stored, `(tokens, features)` each, and removes these keys."""
        if not self._reading:
            return
        damaged, asked = 0, len(arrays)
        try:
            # The file that is there now: it may have been deleted, and made again.
            database = Database.opened(self.folder)
            if database is None:
                with self._only_writer():
                    database = self._open()
            self._database = database
            with database.reading() as get:
                for key, array in list(arrays.items()):
                    value = get(key)
                    if value is not None:
                        if self._take(key, value, array):
                            del arrays[key]
                        else:
                            damaged += 1
        except (OSError, lmdb.Error) as error:
            self._reading = False
            self._stop_writing(f"cannot read {self.folder}: {error}")
        self.counts["found"] += asked - len(arrays)
        if damaged:
            self.counts["damaged"] += damaged
            logger.warning(
                "activations: %d sentences in %s are damaged (%d so far), and are encoded again",
                damaged,
                self.folder,
                self.counts["damaged"],
            )

    def write(self, arrays: dict[bytes, np.ndarray]) -> set[bytes]:
        """
        Stores newly encoded sentences, `(tokens, features)` each. Returns the keys of those that are not
        finite, and so not stored.
        """
        self.counts["encoded"] += len(arrays)
        not_finite = {key for key, values in arrays.items() if not np.isfinite(values).all()}
        self._warn_not_finite(not_finite, arrays)
        records = {
            key: values.tobytes() + self._checksum(key, values)
            for key, values in arrays.items()
            if key not in not_finite
        }
        if records and self._writing:
            try:
                with self._only_writer():
                    if self._has_room(records.values()):
                        database = self._database = self._open()
                        database.write(records)
            except (OSError, lmdb.Error) as error:
                self._stop_writing(f"cannot write to {self.folder}: {error}")
        return not_finite

    @contextmanager
    def _only_writer(self) -> Iterator[None]:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with only_writer(self.folder.parent):
            yield

    def _open(self) -> Database:
        """The database, made if need be; to be called within `_only_writer`."""
        # A gigabyte is room for the pages of the tree.
        map_size = int(min(self._limit, 1e15)) + (1 << 30)
        try:
            database = Database.at(self.folder, map_size)
        except DamagedError as error:
            aside = set_aside(self.folder)
            logger.warning(
                "activations: the database in %s is damaged (%s). Its sentences are encoded again; "
                "it was renamed to %s, which can be deleted.",
                self.folder,
                error,
                aside,
            )
            database = Database.at(self.folder, map_size)
        if not _is_ours(self.folder):
            with atomic_file(self.folder / _ABOUT) as file:
                file.write(json.dumps(self._about, indent=2).encode())
        return database

    def _take(self, key: bytes, value: memoryview, array: np.ndarray) -> bool:
        """Whether a record is what was written; if so, its values are copied."""
        if len(value) != array.nbytes + _CHECKSUM_BYTES:
            return False
        values = np.frombuffer(value[:-_CHECKSUM_BYTES], dtype=array.dtype).reshape(array.shape)
        if self._checksum(key, values) != value[-_CHECKSUM_BYTES:]:
            return False
        array[:] = values
        return True

    def _checksum(self, key: bytes, values: np.ndarray) -> bytes:
        head = zlib.crc32(self.folder.name.encode() + key)
        return zlib.crc32(values.data, head).to_bytes(_CHECKSUM_BYTES, "little")

    def _warn_not_finite(self, keys: set[bytes], arrays: dict[bytes, np.ndarray]) -> None:
        if keys and not self.counts["not finite"]:
            logger.warning(
                "activations: a sentence of %d tokens is not finite in %s. "
                "Such sentences are not kept, but encoded each time.",
                len(arrays[min(keys)]),
                self._about["dtype"],
            )
        self.counts["not finite"] += len(keys)

    def _has_room(self, values: Iterable[bytes]) -> bool:
        more = mmap.PAGESIZE * sum(len(value) // mmap.PAGESIZE + 1 + _PAGES_OF_TREE for value in values)
        sizes = _sizes(self.folder.parent)
        total = sum(sizes.values())
        if total + more <= self._limit:
            return True
        folders = [
            f"{name} ({size / 1e9:.3g} GB)" for name, size in sizes.items() if name != self.folder.name
        ]
        self._stop_writing(
            f"{self.folder.parent} holds {total / 1e9:.3g} GB, and {more / 1e9:.3g} GB more would go beyond "
            f"limit_gb, {self._limit / 1e9:.3g}. Folders of other weights, start states or dtypes: "
            + (", ".join(folders) or "none")
        )
        return False

    def _stop_writing(self, reason: str) -> None:
        if self._writing:
            self._writing = False
            logger.warning("activations: %s. From here on nothing is written, and the run goes on.", reason)


def earlier_version(root: Path) -> list[str]:
    """The names of the folders that an earlier version has filled with files of safetensors."""
    return sorted({shard.parent.name for shard in root.glob("*/*.safetensors") if _is_ours(shard.parent)})


def _is_ours(folder: Path) -> bool:
    return (folder / _ABOUT).exists()


def _sizes(root: Path) -> dict[str, int]:
    """The bytes of each database."""
    sizes = {}
    for path in root.glob(f"*/{FILE}"):
        with suppress(FileNotFoundError):
            if _is_ours(path.parent):
                sizes[path.parent.name] = path.stat().st_size
    return sizes


def log_counts(folder: Path, counts: Counter[str]) -> None:
    logger.info(
        "activations in %s: %d sentences found, %d encoded, %d of them not finite, %d damaged",
        folder,
        *(counts[name] for name in ("found", "encoded", "not finite", "damaged")),
    )
