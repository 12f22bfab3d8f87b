"""
Activations: the layers of a frozen biLM, kept on disk so that each sentence is encoded once.

| path | content |
| --- | --- |
| `PATH/SOURCE/` | an LMDB database; SOURCE is a hash of biLM, start state and dtype |
| `PATH/SOURCE/activations.json` | a description of SOURCE, for people |

The key of a record is the BLAKE2b (16 bytes) of the ids of a sentence's words. Its value is a float16 or
float32 array `(tokens, features)`, then the CRC-32 (4 bytes) of SOURCE, key and array. The features are the
token layer, once, and the LSTM layers, both directions side by side.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch

from elmo_tasks.common.errors import ElmoError, errors_as
from elmo_tasks.common.machine import CACHES_LOCK
from elmo_tasks.common.values import Name, OneOf, PositiveFloat
from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model.lstm import LstmState

if TYPE_CHECKING:
    from elmo_tasks.elmo.inference.activation_store import ActivationStore

FORMAT = 2
"""Raise it with a change of the records, or of the vectors that given weights yield."""
KEPT_TYPES = ("float32", "float16")
LARGEST_FLOAT16 = 65504


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
        """Makes the folder; `ElmoError` where LMDB is missing."""
        remedy = "pip install lmdb, or leave `activations` out"
        with errors_as(ElmoError, "activations need lmdb", ImportError, remedy=remedy):
            import lmdb  # noqa: F401
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
        from elmo_tasks.elmo.inference.activation_store import ActivationStore

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
