"""
Activations: the layers of a frozen biLM, kept on disk so that each sentence is encoded once.

| path | content |
| --- | --- |
| `PATH/SOURCE/` | an LMDB database; SOURCE is a hash of biLM, start state and dtype |
| `PATH/SOURCE/activations.json` | a description of SOURCE, for people |
| `PATH/.lock` | held by the process that writes |

The key of a record is the BLAKE2b (16 bytes) of the ids of a sentence's words. Its value is a float16 or
float32 array `(tokens, features)`, then the CRC-32 (4 bytes) of SOURCE, key and array. The features are the
token layer, once, and the LSTM layers, both directions side by side.

LMDB (https://lmdb.readthedocs.io) never writes to a page in use, and makes a transaction visible by one write
of a meta page: a process killed at any moment leaves all of a batch or nothing. But LMDB trusts its file, and
a damaged page may crash the process. So the pages are verified before a file is opened, and checksums protect
the values. LMDB's locks work between the processes of one machine, not over a network file system.
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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import lmdb
import numpy as np
import torch
from filelock import lock_descriptor, unlock_descriptor
from lmdb.verify import VerifyError, verify

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import atomic_file
from elmo_tasks.common.machine import SHARED
from elmo_tasks.common.values import Name, OneOf, PositiveFloat
from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model.lstm import LstmState

logger = logging.getLogger(__name__)

FORMAT = 2
"""Raise it with a change of the records, or of the vectors that given weights yield."""
DTYPES = ("float32", "float16")
MAP_SIZE = 1 << 42
"""Bytes of address space for a database. A process that gets less encodes each sentence."""
MAX_READERS = 1024
"""Read transactions at once, in all processes together."""
_DATA, _ABOUT, _CHECKSUM_BYTES = "data.mdb", "activations.json", 4
_PAGES_OF_TREE = 10
"""Writing a record copies or splits at most so many pages above it."""


class Activations:
    """
    A `LayerEncoder` that keeps the layers of a frozen biLM on disk.

    Several threads and processes may use one folder at once, and may be killed at any time: a batch that was
    not yet written is encoded again. Damaged records and databases are found, reported, and encoded again.
    A folder in it may be deleted at any time.

    # Parameters

    path : folder; made if need be.
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

    def __getstate__(self) -> dict[str, Any]:
        """A copy shares the folder."""
        return {**self.__dict__, "_store": None}

    def prepare(self) -> None:
        """
        Makes the folder.

        # Raises
        `ElmoError`: it cannot be written to.
        """
        try:
            with _only_writer(Path(self.path)):
                pass
        except OSError as error:
            raise ElmoError(f"activations: cannot write to {self.path}: {error}") from error

    def encode(self, bilm: FrozenBiLm | TrainedBiLm, ids: torch.Tensor, start: LstmState) -> torch.Tensor:
        """
        Returns the layers of `bilm.encode(ids, start)`, without a graph; see `LayerEncoder.encode`.

        *Shape:* the same, on the device of the ids and of the type of `start`.
        """
        assert isinstance(bilm, FrozenBiLm), "Elmo refuses activations with trainable: true"
        bilm.check(ids)
        keys, lengths = _keys_and_lengths(ids.to(bilm.ids_dtype))
        first_row: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if lengths[row]:
                first_row.setdefault(key, row)
        features = bilm.options.projection_dim + bilm.options.n_layers * bilm.options.output_dim
        # (batch, tokens, features)
        packed = np.zeros((*ids.shape[:2], features), dtype=self.dtype)
        arrays = {key: packed[row, : lengths[row]] for key, row in first_row.items()}
        with SHARED:
            store = self._store_of(bilm, start)
        store.read(arrays)
        if arrays:
            missing = [first_row[key] for key in arrays]
            encoded = _packed(bilm.encode(ids[missing, : max(lengths[row] for row in missing)], start), bilm)
            with np.errstate(over="ignore"):
                for array, values in zip(arrays.values(), encoded, strict=True):
                    array[:] = values[: len(array)]
            not_finite = store.write(arrays)
            if not_finite:
                # Values that the dtype cannot hold are returned as they were encoded.
                packed = packed.astype(np.float32)
                for row, values in zip(missing, encoded, strict=True):
                    if keys[row] in not_finite:
                        packed[row, : lengths[row]] = values[: lengths[row]]
        for row, key in enumerate(keys):
            if lengths[row] and first_row[key] != row:
                packed[row] = packed[first_row[key]]
        return _unpacked(torch.from_numpy(packed).to(ids.device), bilm).to(start.hidden.dtype)

    def _store_of(self, bilm: FrozenBiLm, start: LstmState) -> "ActivationStore":
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
            weakref.finalize(self._store, _log_counts, self._store.folder, self._store.counts)
        return self._store


def _keys_and_lengths(ids: torch.Tensor) -> tuple[list[bytes], list[int]]:
    """*Shape:* ids `(batch, tokens)` or `(batch, tokens, 50)` to the key and the length of each sentence."""
    ids = ids if ids.dim() == 3 else ids.unsqueeze(2)
    sentences = ids.cpu().contiguous().numpy()
    lengths = (sentences != 0).any(axis=2).sum(axis=1).tolist()
    keys = [
        hashlib.blake2b(words[:length], digest_size=16).digest()
        for words, length in zip(sentences, lengths, strict=True)
    ]
    return keys, lengths


def _packed(layers: torch.Tensor, bilm: FrozenBiLm) -> np.ndarray:
    """*Shape:* `(layers, batch, tokens, 2 projection_dim)` to `(batch, tokens, features)`, float32."""
    words = layers[0, :, :, : bilm.options.projection_dim]
    return torch.cat([words, *layers[1:]], dim=2).float().cpu().numpy()


def _unpacked(packed: torch.Tensor, bilm: FrozenBiLm) -> torch.Tensor:
    """*Shape:* `(batch, tokens, features)` to `(layers, batch, tokens, 2 projection_dim)`, float32."""
    size, dim = bilm.options.projection_dim, bilm.options.output_dim
    layers = torch.empty(bilm.num_layers, *packed.shape[:2], dim, device=packed.device)
    layers[0, :, :, :size] = layers[0, :, :, size:] = packed[:, :, :size]
    layers[1:] = packed[:, :, size:].unflatten(2, (bilm.options.n_layers, dim)).permute(2, 0, 1, 3)
    return layers


def _log_counts(folder: Path, counts: Counter[str]) -> None:
    logger.info(
        "activations in %s: %d sentences found, %d encoded, %d of them not finite, %d damaged",
        folder,
        *(counts[name] for name in ("found", "encoded", "not finite", "damaged")),
    )


class ActivationStore:
    """
    The sentences of one source on disk: of a biLM, a start state and a dtype.

    # Parameters

    folder : of the database.
    about : a description of the source.
    limit : bytes that this database and the others beside it may take together.
    """

    def __init__(self, folder: Path, about: dict[str, Any], limit: float) -> None:
        self.folder = folder
        self.counts: Counter[str] = Counter()
        self._about, self._limit = about, limit
        self._environment: lmdb.Environment | None = None
        self._reading = self._writing = True

    def read(self, arrays: dict[bytes, np.ndarray]) -> None:
        """Fills the arrays `(tokens, features)` of the keys that are stored, and removes these keys."""
        if not self._reading:
            return
        damaged, requested = 0, len(arrays)
        try:
            with _LOCK:
                self._environment = _opened(self.folder)
                if self._environment is None:
                    with _only_writer(self.folder.parent):
                        self._environment = self._open()
                with self._environment.begin(buffers=True) as transaction:
                    for key, array in list(arrays.items()):
                        value = transaction.get(key)
                        if value is not None:
                            if self._copy(key, value, array):
                                del arrays[key]
                            else:
                                damaged += 1
        except (OSError, lmdb.Error) as error:
            self._reading = False
            self._stop_writing(f"cannot read {self.folder}: {error}")
        self.counts["found"] += requested - len(arrays)
        if damaged:
            self.counts["damaged"] += damaged
            logger.warning(
                "activations: %d sentences in %s are damaged (%d so far), and are encoded again",
                damaged,
                self.folder,
                self.counts["damaged"],
            )

    def write(self, arrays: dict[bytes, np.ndarray]) -> set[bytes]:
        """Stores new sentences, `(tokens, features)`, that are finite, and returns their keys."""
        self.counts["encoded"] += len(arrays)
        not_finite = {key for key, values in arrays.items() if not np.isfinite(values).all()}
        if not_finite and not self.counts["not finite"]:
            logger.warning(
                "activations: a sentence of %d tokens is not finite in %s. "
                "Such sentences are not kept, but encoded each time.",
                len(arrays[min(not_finite)]),
                self._about["dtype"],
            )
        self.counts["not finite"] += len(not_finite)
        records = {
            key: values.tobytes() + self._checksum(key, values)
            for key, values in arrays.items()
            if key not in not_finite
        }
        if records and self._writing:
            try:
                with _only_writer(self.folder.parent):
                    if self._has_room(records.values()):
                        self._environment = self._open()
                        with self._environment.begin(write=True) as transaction:
                            for record in records.items():
                                transaction.put(*record)
            except (OSError, lmdb.Error) as error:
                self._stop_writing(f"cannot write to {self.folder}: {error}")
        return not_finite

    def _open(self) -> lmdb.Environment:
        environment = _opened(self.folder)
        if environment is None:
            if damage := _damage(self.folder / _DATA):
                aside = self.folder.with_name(f"{self.folder.name}.damaged-{uuid.uuid4().hex[:8]}")
                self.folder.rename(aside)
                logger.warning(
                    "activations: the database in %s is damaged (%s). Its sentences are encoded again; "
                    "it was renamed to %s, which can be deleted.",
                    self.folder,
                    damage,
                    aside,
                )
            environment = _open_new(self.folder)
        if not _is_ours(self.folder):
            with atomic_file(self.folder / _ABOUT) as file:
                file.write(json.dumps(self._about, indent=2).encode())
        return environment

    def _copy(self, key: bytes, value: memoryview, array: np.ndarray) -> bool:
        """Copies a record's values into the array, and returns true, unless the record is damaged."""
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

    def _has_room(self, values: Iterable[bytes]) -> bool:
        more = mmap.PAGESIZE * sum(len(value) // mmap.PAGESIZE + 1 + _PAGES_OF_TREE for value in values)
        sizes = _sizes(self.folder.parent)
        total = sum(sizes.values())
        if total + more <= self._limit:
            return True
        other_folders = [
            f"{name} ({size / 1e9:.3g} GB)" for name, size in sizes.items() if name != self.folder.name
        ]
        self._stop_writing(
            f"{self.folder.parent} holds {total / 1e9:.3g} GB, and {more / 1e9:.3g} GB more would go beyond "
            f"limit_gb, {self._limit / 1e9:.3g}. Folders of other weights, start states or dtypes: "
            + (", ".join(other_folders) or "none")
        )
        return False

    def _stop_writing(self, reason: str) -> None:
        if self._writing:
            self._writing = False
            logger.warning("activations: %s. From here on nothing is written, and the run goes on.", reason)


def _is_ours(folder: Path) -> bool:
    return (folder / _ABOUT).exists()


def _sizes(root: Path) -> dict[str, int]:
    sizes = {}
    for path in root.glob(f"*/{_DATA}"):
        with suppress(FileNotFoundError):
            if _is_ours(path.parent):
                sizes[path.parent.name] = path.stat().st_size
    return sizes


# LMDB's environments: a process opens a file once, by whatever path, and opens again what its parent had open

_LOCK = threading.RLock()
"""Held by the one thread of this process that opens, reads or writes. A fork waits for it."""
_environments: weakref.WeakValueDictionary[tuple[int, int], lmdb.Environment] = weakref.WeakValueDictionary()
"""The open environments by the device and inode of their files."""


@contextmanager
def _only_writer(root: Path) -> Iterator[None]:
    """Makes the folder, and locks it; a killed process leaves no lock. Raises `OSError`."""
    root.mkdir(parents=True, exist_ok=True)
    with _LOCK, open(root / ".lock", "ab") as file:
        lock_descriptor(file.fileno(), poll_interval=0.005)
        try:
            yield
        finally:
            unlock_descriptor(file.fileno())


def _opened(folder: Path) -> lmdb.Environment | None:
    """Returns the environment of the file that is in a folder now, if this process has opened it."""
    try:
        return _environments.get(_file_key(folder))
    except FileNotFoundError:
        return None


def _open_new(folder: Path) -> lmdb.Environment:
    """Opens or makes a database, within `_only_writer`. Raises `lmdb.Error` or `OSError`."""
    # `sync` writes a batch before the meta page that shows it, so that nothing is torn. Without `metasync`, a
    # power cut may lose that page, and the last batch with it.
    environment = lmdb.open(
        str(folder), MAP_SIZE, sync=True, metasync=False, max_readers=MAX_READERS, max_spare_txns=0
    )
    # Frees the slots of killed processes
    environment.reader_check()
    # Reading beyond the end of a file that was cut would kill the process. Zeros have no valid checksum.
    path, pages = folder / _DATA, environment.info()["last_pgno"] + 1
    os.truncate(path, max(path.stat().st_size, pages * environment.stat()["psize"]))
    _environments[_file_key(folder)] = environment
    return environment


def _damage(path: Path) -> str | None:
    """Returns what is wrong with the pages of a file. An empty file is a new one."""
    if not path.exists() or not path.stat().st_size:
        return None
    try:
        return next(iter(verify(str(path), subdir=False)), None)
    except VerifyError as error:
        return str(error)


def _file_key(folder: Path) -> tuple[int, int]:
    status = (folder / _DATA).stat()
    return status.st_dev, status.st_ino


def _after_fork_in_child() -> None:
    """Closes the parent's environments, which LMDB forbids to use here."""
    for environment in list(_environments.values()):
        environment.close()
    _environments.clear()
    _LOCK.release()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_after_fork_in_child
    )
