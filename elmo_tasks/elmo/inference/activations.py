"""
Frozen layers of the biLM on disk: a sentence is encoded once, in whatever epoch, run or process.

`ActivationStore` says what is on disk. The token layer of a biLM is the same vector twice; it is kept once.
"""

import hashlib
import json
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from elmo_tasks.elmo.inference.activation_store import ActivationStore, earlier_version, log_counts
from elmo_tasks.elmo.inference.database import only_writer
from elmo_tasks.elmo.inference.frozen_bilm import FrozenBiLm
from elmo_tasks.elmo.inference.shared_lock import SHARED
from elmo_tasks.elmo.model.errors import ElmoError
from elmo_tasks.elmo.model.lstm import LstmState
from elmo_tasks.values import Name, OneOf, PositiveFloat

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

    def layers(self, ids: torch.Tensor, bilm: FrozenBiLm, start: LstmState) -> torch.Tensor:
        """
        The layers of `bilm.encode(ids, start)`, without a graph.

        *Shape:* `ids` as `bilm` reads them. Returns `(layers, batch, tokens, 2 projection_dim)`, on the
        device of the ids and of the type of `start`, zero behind the end of a sentence.
        """
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
