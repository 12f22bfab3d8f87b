"""
LMDB databases that several processes and threads share: one environment a file and process.

LMDB (https://lmdb.readthedocs.io) never writes to a page in use, and a transaction becomes visible by one
write of a meta page: a process killed at any moment leaves all of a batch or nothing. But LMDB trusts its
file, and a damaged page may crash the process. So the pages are verified before a file is opened; checksums
of the values are the caller's.

The sentences of one source on disk.

| path | content |
| --- | --- |
| `PATH/SOURCE/` | an LMDB database; SOURCE is a hash of biLM, start state and dtype |
| `PATH/SOURCE/activations.json` | what SOURCE is of, for people |
| `PATH/.lock` | held by the process that writes |

A record has as its key BLAKE2b (16 bytes) of the ids of a sentence's words, and as its value float16 or
float32 `(tokens, features)`, then the CRC-32 (4 bytes) of SOURCE, key and these. Processes may share PATH on
one machine: LMDB's locks do not reach over a network file system.

Frozen layers of the biLM on disk: a sentence is encoded once, in whatever epoch, run or process.

`ActivationStore` says what is on disk. The token layer of a biLM is the same vector twice; it is kept once.
"""

import hashlib
import json
import logging
import mmap
import os
import threading
import uuid
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Annotated, Any
from weakref import WeakValueDictionary

import lmdb
import numpy as np
import torch
from filelock import lock_descriptor, unlock_descriptor
from lmdb.verify import VerifyError, verify

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import atomic_file
from elmo_tasks.common.processes import SHARED
from elmo_tasks.common.values import Name, OneOf, PositiveFloat
from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model.lstm import LstmState

# ==== elmo.inference.database
FILE = "data.mdb"
MAX_READERS = 1024
"""Read transactions at once, of all processes together."""
_MIN_MAP, _MAX_MAP = 1 << 24, 1 << 45
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
            self._map_size = max(_MIN_MAP, min(self._map_size, _MAX_MAP)) & ~0xFFFF
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
                if self._map_size <= _MIN_MAP:
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


# ==== elmo.inference.activation_store
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


# ==== elmo.inference.activations
FORMAT = 2
"""To be raised with a change of the records, or of what a biLM with given weights computes."""
DTYPES = ("float32", "float16")


class ActivationsError(ElmoError):
    """The folder of activations cannot be used."""


class Activations:
    """
    Keeps the layers of a frozen biLM on disk.

    Several threads and processes may use one folder at once, and may be killed at any time: a batch that was
    not yet written is encoded again. Damaged records and databases are found, reported, and encoded again.
    A folder in it may be deleted at any time.

    # Parameters

    path : folder; made where it is not there.
    dtype : `float32` keeps layers of float32 as they are; `float16` takes half of the space and rounds them.
    limit_gb : in 10^9 bytes. Nothing is written that would bring the databases under `path` beyond it.
    """

    def __init__(
        self,
        *,
        path: Name,
        dtype: Annotated[str, OneOf(DTYPES)] = "float32",
        limit_gb: PositiveFloat = 100.0,
    ) -> None:
        self.path, self.dtype, self.limit_gb = path, dtype, limit_gb
        self._store: ActivationStore | None = None

    @classmethod
    def of(cls, value: "str | PathLike[str] | Mapping[str, Any] | Activations") -> "Activations":
        """Makes one from a config: a path, or a block of the parameters above."""
        if isinstance(value, Activations):
            return value
        return cls(**value) if isinstance(value, Mapping) else cls(path=str(value))

    def __reduce__(self) -> tuple[Callable[[], "Activations"], tuple[()]]:
        """A copy shares the folder."""
        return partial(type(self), path=self.path, dtype=self.dtype, limit_gb=self.limit_gb), ()

    def prepare(self) -> None:
        """
        Makes the folder.

        # Raises
        `ActivationsError` if nothing can be written there, or if it holds the files of an earlier version.
        """
        root = Path(self.path)
        try:
            root.mkdir(parents=True, exist_ok=True)
            with only_writer(root):
                pass
            old = earlier_version(root)
        except OSError as error:
            raise ActivationsError(f"activations: cannot write to {self.path}: {error}") from error
        if old:
            raise ActivationsError(
                f"activations: found *.safetensors files of an earlier version in {self.path}, expected LMDB "
                f"databases. Delete these folders, or name another path: {', '.join(old)}"
            )

    def encode(self, bilm: FrozenBiLm | TrainedBiLm, ids: torch.Tensor, start: LstmState) -> torch.Tensor:
        """
        Returns the layers of `bilm.encode(ids, start)`, without a graph; see `LayerEncoder.encode`.

        *Shape:* the same, on the device of the ids and of the type of `start`.
        """
        assert isinstance(bilm, FrozenBiLm), "Elmo refuses activations with trainable: true"
        bilm.check(ids)
        keys, lengths = _keys_and_lengths(ids.to(bilm.ids_dtype))
        rows: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if lengths[row]:
                rows.setdefault(key, row)
        features = bilm.options.projection_dim + bilm.options.n_layers * bilm.options.output_dim
        # (batch, tokens, features)
        packed = np.zeros((*ids.shape[:2], features), dtype=self.dtype)
        arrays = {key: packed[row, : lengths[row]] for key, row in rows.items()}
        with SHARED:
            store = self._store_of(bilm, start)
        store.read(arrays)
        if arrays:
            missing = [rows[key] for key in arrays]
            encoded = _encode(ids[missing, : max(lengths[row] for row in missing)], bilm, start)
            with np.errstate(over="ignore"):
                for array, values in zip(arrays.values(), encoded, strict=True):
                    array[:] = values[: len(array)]
            not_finite = store.write(arrays)
            if not_finite:
                # The dtype cannot hold them: they are returned as they were encoded.
                packed = packed.astype(np.float32)
                for row, values in zip(missing, encoded, strict=True):
                    if keys[row] in not_finite:
                        packed[row, : lengths[row]] = values[: lengths[row]]
        for row, key in enumerate(keys):
            if lengths[row] and rows[key] != row:
                packed[row] = packed[rows[key]]
        return _unpack(torch.from_numpy(packed), bilm, ids.device).to(start.hidden.dtype)

    def _store_of(self, bilm: FrozenBiLm, start: LstmState) -> ActivationStore:
        source = {
            "format": FORMAT,
            "bilm": bilm.digest(),
            "start": start.digest(size=8),
            "dtype": self.dtype,
        }
        name = hashlib.blake2b(json.dumps(source).encode(), digest_size=8).hexdigest()
        if self._store is None or self._store.folder.name != name:
            about = source | {"precision": bilm.precision, "options": bilm.options.to_json()}
            self._store = ActivationStore(Path(self.path, name), about, limit=self.limit_gb * 1e9)
            weakref.finalize(self._store, log_counts, self._store.folder, self._store.counts)
        return self._store


def _keys_and_lengths(ids: torch.Tensor) -> tuple[list[bytes], list[int]]:
    """The key and the length of each sentence. *Shape:* ids `(batch, tokens)` or `(batch, tokens, 50)`."""
    ids = ids if ids.dim() == 3 else ids.unsqueeze(2)
    words_of = ids.cpu().contiguous().numpy()
    lengths = (words_of != 0).any(axis=2).sum(axis=1).tolist()
    keys = [
        hashlib.blake2b(words[:length], digest_size=16).digest()
        for words, length in zip(words_of, lengths, strict=True)
    ]
    return keys, lengths


def _encode(ids: torch.Tensor, bilm: FrozenBiLm, start: LstmState) -> np.ndarray:
    """*Shape:* ids as `bilm` reads them to `(batch, tokens, features)`, float32."""
    layers = bilm.encode(ids, start)
    words = layers[0, :, :, : bilm.options.projection_dim]
    return torch.cat([words, *layers[1:]], dim=2).float().cpu().numpy()


def _unpack(packed: torch.Tensor, bilm: FrozenBiLm, device: torch.device) -> torch.Tensor:
    """*Shape:* `(batch, tokens, features)` to `(layers, batch, tokens, 2 projection_dim)`, float32."""
    size = bilm.options.projection_dim
    packed = packed.to(device)
    layers = torch.empty(bilm.num_layers, *packed.shape[:2], bilm.options.output_dim, device=device)
    layers[0, :, :, :size] = layers[0, :, :, size:] = packed[:, :, :size]
    layers[1:] = (
        packed[:, :, size:].unflatten(2, (bilm.options.n_layers, bilm.options.output_dim)).permute(2, 0, 1, 3)
    )
    return layers
