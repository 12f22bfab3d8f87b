"""
Activations: the layers of a frozen biLM, kept on disk so that each sentence is encoded once.

| path | content |
| --- | --- |
| `PATH/SOURCE/` | an LMDB database; SOURCE is a hash of biLM, start state and dtype |
| `PATH/SOURCE/activations.json` | a description of SOURCE, for people |

The key of a record is the BLAKE2b (16 bytes) of the ids of a sentence's words. Its value is a float16 or
float32 array `(tokens, features)`, then the CRC-32 (4 bytes) of SOURCE, key and array. The features are the
token layer, once, and the LSTM layers, both directions side by side.

LMDB (https://lmdb.readthedocs.io) locks the database between the processes of one machine, but not over a
network file system. A killed process leaves all sentences of a batch or none.
"""

import hashlib
import json
import logging
import mmap
import os
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import lmdb
import numpy as np
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import atomic_file
from elmo_tasks.common.machine import CACHES_LOCK
from elmo_tasks.common.values import Name, OneOf, PositiveFloat
from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model.lstm import LstmState

logger = logging.getLogger(__name__)

FORMAT = 2
"""Raise it with a change of the records, or of the vectors that given weights yield."""
KEPT_TYPES = ("float32", "float16")
LARGEST_FLOAT16 = 65504
MAP_SIZE = 1 << 42
"""The address space of a database in bytes. A process that gets less encodes each sentence."""
MAX_READERS = 1024
_DATA, _ABOUT, _CHECKSUM_BYTES = "data.mdb", "activations.json", 4
_PAGES_OF_TREE = 10
"""The pages above a record that writing it copies or splits, at most."""
_DAMAGED = (lmdb.InvalidError, lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.VersionMismatchError)


class Activations:
    """
    A `LayerEncoder` that keeps the layers of a frozen biLM on disk.

    Several threads and processes may use one folder at the same time, and may be killed at any time: a batch
    that was not yet written is encoded again. A damaged file is an `ElmoError` that names the folder to
    delete.

    # Parameters

    path : folder; made if it does not exist.
    dtype : `float32` keeps layers of float32 exactly; `float16` takes half of the space and rounds them.
    limit_gb : in 10^9 bytes. Nothing is written that would bring the databases under `path` beyond it.
    """

    def __init__(
        self,
        *,
        path: Name,
        dtype: Annotated[str, OneOf(KEPT_TYPES)] = "float32",
        limit_gb: PositiveFloat = 100.0,
    ) -> None:
        self.path, self.dtype, self.limit_gb = path, dtype, limit_gb
        self._store: ActivationStore | None = None

    @classmethod
    def of(cls, value: "str | PathLike[str] | Mapping[str, Any] | Activations") -> "Activations":
        if isinstance(value, Activations):
            return value
        return cls(**value) if isinstance(value, Mapping) else cls(path=str(value))

    def __getstate__(self) -> dict[str, Any]:
        """A copy shares the folder."""
        return {**self.__dict__, "_store": None}

    def prepare(self) -> None:
        os.makedirs(self.path, exist_ok=True)

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
        with CACHES_LOCK:
            store = self._store_of(bilm, start)
        store.read(arrays)
        if arrays:
            missing = [first_row[key] for key in arrays]
            encoded = _packed(bilm.encode(ids[missing, : max(lengths[row] for row in missing)], start), bilm)
            if self.dtype == "float16" and np.abs(encoded).max() > LARGEST_FLOAT16:
                raise ElmoError(
                    f"activations: float16 cannot hold a value above {LARGEST_FLOAT16:,}",
                    remedy="use dtype: float32",
                )
            for array, values in zip(arrays.values(), encoded, strict=True):
                array[:] = values[: len(array)]
            store.write(arrays)
        for row, key in enumerate(keys):
            if lengths[row] and first_row[key] != row:
                packed[row] = packed[first_row[key]]
        return _unpacked(torch.from_numpy(packed).to(ids.device), bilm).to(start.hidden.dtype)

    def _store_of(self, bilm: FrozenBiLm, start: LstmState) -> "ActivationStore":
        source = {"format": FORMAT, "bilm": bilm.digest(), "start": start.digest(size=8), "dtype": self.dtype}
        name = hashlib.blake2b(json.dumps(source).encode(), digest_size=8).hexdigest()
        if self._store is None or self._store.folder.name != name:
            about = source | {"precision": bilm.precision, "options": bilm.options.to_json()}
            self._store = ActivationStore(Path(self.path, name), about, limit=self.limit_gb * 1e9)
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
