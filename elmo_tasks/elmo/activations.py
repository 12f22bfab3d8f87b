"""
Frozen layers of the biLM on disk: a sentence is encoded once, in whatever epoch, run or process.

| path | content |
| --- | --- |
| `PATH/SOURCE/` | the sentences of one biLM, start state and dtype; SOURCE is a hash of these |
| `PATH/SOURCE/activations.json` | what SOURCE is of, for people |
| `PATH/SOURCE/*.safetensors` | shards: some sentences each, never changed once they are there |

A shard is a file in the safetensors format (https://github.com/huggingface/safetensors) with the tensors

| tensor | dtype and shape | content |
| --- | --- | --- |
| `keys` | uint8 (sentences, 16) | BLAKE2b of the ids of a sentence's words |
| `tokens` | int32 (sentences,) | |
| `checksums` | int64 (sentences,) | CRC-32 of SOURCE, key, number of tokens and values |
| `values` | float16 or float32 (tokens of all sentences, P + layers * 2P) | P is the size of a projection |

The token layer of a biLM is the same vector twice; it stands here once.
"""

import hashlib
import json
import logging
import math
import os
import time
import uuid
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from elmo_tasks.elmo.bilm import BiLm
from elmo_tasks.elmo.lstm import LstmState
from elmo_tasks.elmo.seen import Seen
from elmo_tasks.elmo.weights import BiLmOptions
from elmo_tasks.strict_params import StrictParams

logger = logging.getLogger(__name__)

FORMAT = 1
"""To be raised with a change of the shards, or of what a biLM with given weights computes."""
DTYPES = {"float32": torch.float32, "float16": torch.float16}

SHARD_BYTES = 32 << 20
"""So much is collected in memory before it is written."""
WAITING_SECONDS = 60.0
"""What has waited so long is written, too: the last sentences of the first epoch."""
LOOK_SECONDS = 5.0
"""Between two looks for the shards of other processes."""
LEFTOVER_SECONDS = 3600.0
"""A temporary file this old is that of a killed process."""

_ABOUT, _SHARD, _TEMPORARY = "activations.json", ".safetensors", ".tmp"
_KEY_BYTES = 16


class Activations(StrictParams):
    """
    Keeps the layers of a frozen biLM on disk.

    Several processes may use one folder at once, and may be killed at any time: what was not yet written is
    encoded again. Damaged shards and sentences are found, reported, and encoded again. Files may be deleted
    at any time, but not be written to.

    # Parameters

    path : folder; made where it is not there.
    dtype : `float32` keeps the layers as they are; `float16` takes half of the space and rounds them.
    limit_gb : in 10^9 bytes. Nothing is written that would bring the files under `path` beyond it.

    # Raises
    `ConfigurationError` for an unknown dtype, or a limit that is not positive.
    """

    def __init__(self, *, path: str, dtype: str = "float32", limit_gb: float = 100.0) -> None:
        if dtype not in DTYPES:
            raise ConfigurationError(f"activations: dtype is {dtype!r}, expected one of {', '.join(DTYPES)}")
        if not limit_gb > 0:
            raise ConfigurationError(f"activations: limit_gb is {limit_gb}, expected more than 0")
        self.path, self.dtype, self.limit_gb = path, dtype, limit_gb
        self._digest = _Digest()
        self._store: _Store | None = None
        self._close: Callable[[], Any] = lambda: None

    @classmethod
    def of(cls, value: str | dict[str, Any]) -> "Activations":
        """From a config: a path, or a block of the parameters above."""
        if not isinstance(value, str | dict):
            raise ConfigurationError(f"activations is {value!r}, expected a path or a block")
        return cls.from_params(Params({"path": value} if isinstance(value, str) else dict(value)))

    def __reduce__(self) -> tuple[Callable, tuple]:
        """A copy shares the folder, not what waits in memory."""
        return partial(type(self), path=self.path, dtype=self.dtype, limit_gb=self.limit_gb), ()

    def prepare(self) -> None:
        """Makes the folder. Raises `ConfigurationError` if nothing can be written there."""
        probe = Path(self.path, uuid.uuid4().hex + _TEMPORARY)
        try:
            probe.parent.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise ConfigurationError(f"activations: cannot write to {self.path}: {error}") from error

    def layers(self, ids: torch.Tensor, bilm: BiLm, start: LstmState) -> torch.Tensor:
        """
        The layers of `bilm.encode(ids, start)`, without a graph.

        Weights that have changed since the last call are noticed; but not values that were written through
        `parameter.data`, which PyTorch does not count as a change.

        *Shape:* `ids` as `bilm` reads them. Returns `(layers, batch, tokens, 2 projection_dim)`,
        float32, on the device of the ids, zero behind the end of a sentence.
        """
        store = self._store_of(bilm, start)
        sentences = _Sentences(ids)
        found = store.find(sentences.rows)
        missing = {key: row for key, row in sentences.rows.items() if key not in found}
        if missing:
            lengths = [sentences.lengths[row] for row in missing.values()]
            encoded = _encode(ids[list(missing.values()), : max(lengths)], bilm, start)
            for key, values, length in zip(missing, encoded, lengths, strict=True):
                found[key] = store.add(key, values[:length])
        store.flush(waited=WAITING_SECONDS)
        return _unpack(sentences.padded(found, store.features), bilm.options, ids.device)

    def flush(self) -> None:
        """Writes what waits in memory. This comes by itself with time, and when the process ends."""
        if self._store is not None:
            self._store.flush()

    def _store_of(self, bilm: BiLm, start: LstmState) -> "_Store":
        source = {
            "format": FORMAT,
            "bilm": self._digest(bilm),
            "start": _hash(part.cpu().contiguous().numpy() for part in start),
            "dtype": self.dtype,
        }
        name = _hash([json.dumps(source).encode()])
        if self._store is None or self._store.folder.name != name:
            self._close()
            self._store = _Store(
                folder=Path(self.path, name),
                about=source | {"precision": bilm.precision, "options": bilm.options.to_json()},
                features=bilm.options.projection_dim + bilm.options.n_layers * bilm.options.output_dim,
                dtype=DTYPES[self.dtype],
                limit=self.limit_gb * 1e9,
            )
            self._close = weakref.finalize(self, self._store.close)
        return self._store


class _Digest:
    """`BiLm.digest`, computed again only when the weights have changed."""

    def __init__(self) -> None:
        self._of = "", Seen([])
        self._digest = ""

    def __call__(self, bilm: BiLm) -> str:
        weights = list(bilm.state_dict(keep_vars=True).values())
        precision, seen = self._of
        uncounted = any(weight.is_inference() for weight in weights)
        if uncounted or precision != bilm.precision or not seen.are(weights):
            self._of, self._digest = (bilm.precision, Seen(weights)), bilm.digest()
        return self._digest


class _Sentences:
    """
    The sentences of a batch.

    `keys` and `lengths` have an item a row; a row without tokens has the key `None`. `rows` has the first
    row of each distinct sentence.
    """

    def __init__(self, ids: torch.Tensor) -> None:
        # Characters fit into 16 bits; of a word, one id with all of its bits
        ids = ids.to(torch.int16) if ids.dim() == 3 else ids.unsqueeze(2)
        words_of = ids.cpu().contiguous().numpy()
        self.width = ids.shape[1]
        self.lengths: list[int] = (words_of != 0).any(axis=2).sum(axis=1).tolist()
        self.keys = [
            hashlib.blake2b(words[:length], digest_size=_KEY_BYTES).digest() if length else None
            for words, length in zip(words_of, self.lengths, strict=True)
        ]
        self.rows: dict[bytes, int] = {}
        for row, key in enumerate(self.keys):
            if key is not None:
                self.rows.setdefault(key, row)

    def padded(self, values: dict[bytes, torch.Tensor], features: int) -> torch.Tensor:
        """*Shape:* `(length, features)` for each key, to `(batch, tokens, features)`."""
        kinds = {tensor.dtype for tensor in values.values()}
        dtype = kinds.pop() if len(kinds) == 1 else torch.float32
        padded = torch.zeros(len(self.keys), self.width, features, dtype=dtype)
        for row, key, length in zip(padded, self.keys, self.lengths, strict=True):
            if key is not None:
                row[:length] = values[key]
        return padded


class _Store:
    """The sentences of one source: on disk, or in memory waiting to be written."""

    def __init__(
        self, *, folder: Path, about: dict[str, Any], features: int, dtype: torch.dtype, limit: float
    ) -> None:
        self.folder = folder
        self.features = features
        self._about, self._dtype, self._limit = about, dtype, limit
        self._places: dict[bytes, tuple[_Shard, int]] = {}
        self._known: set[Path] = set()
        self._looked = -math.inf
        self._waiting: dict[bytes, torch.Tensor] = {}
        self._waiting_bytes = 0
        self._waiting_since = 0.0
        self._writing = True
        self._counts: Counter[str] = Counter()
        self._remove_leftovers()

    def find(self, keys: Collection[bytes]) -> dict[bytes, torch.Tensor]:
        """*Shape:* `(tokens, features)` for each key that is there."""
        due = time.monotonic() - self._looked >= LOOK_SECONDS
        if due and any(key not in self._places and key not in self._waiting for key in keys):
            self._look()
        found = {key: values for key in keys if (values := self._get(key)) is not None}
        self._counts["found"] += len(found)
        return found

    def add(self, key: bytes, values: torch.Tensor) -> torch.Tensor:
        """Takes in a newly encoded sentence, `(tokens, features)`, and gives it as it is kept."""
        self._counts["encoded"] += 1
        kept = values.to(self._dtype, copy=True)
        if not kept.isfinite().all():
            self._refuse(values)
            return values
        if self._writing:
            if not self._waiting:
                self._waiting_since = time.monotonic()
            self._waiting[key] = kept
            self._waiting_bytes += kept.nbytes
            if self._waiting_bytes >= SHARD_BYTES:
                self.flush()
        return kept

    def flush(self, waited: float = 0.0) -> None:
        """Writes what waits in memory, if for so many seconds."""
        if not self._waiting or time.monotonic() - self._waiting_since < waited:
            return
        content = _shard_content(self.folder.name, self._waiting)
        self._waiting, self._waiting_bytes = {}, 0
        if not self._has_room(len(content)):
            return
        path = self.folder / (uuid.uuid4().hex + _SHARD)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not (self.folder / _ABOUT).exists():
                _write(self.folder / _ABOUT, json.dumps(self._about, indent=2).encode())
            _write(path, content)
        except OSError as error:
            self._stop_writing(f"cannot write to {self.folder}: {error}")
            return
        self._take(path)

    def close(self) -> None:
        self.flush()
        logger.info(
            "activations in %s: %d sentences found, %d encoded, %d of them not finite",
            *(self.folder, self._counts["found"], self._counts["encoded"], self._counts["not finite"]),
        )

    def _get(self, key: bytes) -> torch.Tensor | None:
        if key in self._waiting:
            return self._waiting[key]
        if key not in self._places:
            return None
        shard, number = self._places[key]
        if shard.is_sound(number):
            return shard.values(number)
        self._leave_damaged(shard)
        return None

    def _look(self) -> None:
        """Takes in what has come since the last look; of two shards with a sentence the newer one holds."""
        self._looked = time.monotonic()
        for path in sorted(set(self.folder.glob(f"*{_SHARD}")) - self._known, key=_modified):
            self._take(path)

    def _take(self, path: Path) -> None:
        self._known.add(path)
        try:
            shard = _Shard(path, dtype=self._dtype, features=self.features)
        except (SafetensorError, OSError, RuntimeError, ValueError) as error:
            logger.warning(
                "activations: %s cannot be read (%s). What it holds is encoded again; it can be deleted.",
                *(path, str(error)),
            )
            return
        self._places.update((key, (shard, number)) for number, key in enumerate(shard.keys))

    def _leave_damaged(self, shard: "_Shard") -> None:
        damaged = [number for number in range(len(shard.keys)) if not shard.is_sound(number)]
        logger.warning(
            "activations: %d of %d sentences in %s are damaged, and are encoded again",
            *(len(damaged), len(shard.keys), shard.path),
        )
        for number in damaged:
            if self._places.get(shard.keys[number]) == (shard, number):
                del self._places[shard.keys[number]]

    def _refuse(self, values: torch.Tensor) -> None:
        self._counts["not finite"] += 1
        if self._counts["not finite"] == 1:
            logger.warning(
                "activations: a sentence of %d tokens, with values up to %.3g, is not finite in %s. "
                "Such sentences are not kept, but encoded each time.",
                *(len(values), values.abs().max().item(), self._about["dtype"]),
            )

    def _has_room(self, more: int) -> bool:
        sizes = _sizes(self.folder.parent)
        total = sum(sizes.values())
        if total + more <= self._limit:
            return True
        others = [f"{name} ({size / 1e9:.3g} GB)" for name, size in sizes.items() if name != self.folder.name]
        self._stop_writing(
            f"{self.folder.parent} holds {total / 1e9:.3g} GB, and {more / 1e9:.3g} GB more would go beyond "
            f"limit_gb, {self._limit / 1e9:.3g}. Folders of other weights, start states or dtypes: "
            + (", ".join(others) or "none")
        )
        return False

    def _stop_writing(self, reason: str) -> None:
        self._writing = False
        logger.warning("activations: %s. From here on nothing is written, and the run goes on.", reason)

    def _remove_leftovers(self) -> None:
        for path in self.folder.glob(f"*{_TEMPORARY}"):
            if time.time() - _modified(path) > LEFTOVER_SECONDS:
                with suppress(OSError):
                    path.unlink()


class _Shard:
    """
    A file of sentences, mapped into memory.

    # Raises
    `SafetensorError`, `OSError`, `RuntimeError` or `ValueError` if it is not whole.
    """

    def __init__(self, path: Path, *, dtype: torch.dtype, features: int) -> None:
        with safe_open(path, framework="pt") as file:
            # get_tensor gives views of the map.
            keys, tokens, checksums, values = (
                file.get_tensor(name) for name in ("keys", "tokens", "checksums", "values")
            )
        sentences = tokens.numel()
        if tokens.dtype != torch.int32 or (sentences and tokens.min() < 1):
            raise ValueError("not numbers of tokens")
        for tensor, kind, shape in (
            (keys, torch.uint8, (sentences, _KEY_BYTES)),
            (tokens, torch.int32, (sentences,)),
            (checksums, torch.int64, (sentences,)),
            (values, dtype, (tokens.sum().item(), features)),
        ):
            if tensor.dtype != kind or tensor.shape != shape:
                raise ValueError(
                    f"found {tensor.dtype} {tuple(tensor.shape)}, expected {kind} {tuple(shape)}"
                )
        self.path = path
        content = keys.numpy().tobytes()
        self.keys = [content[i : i + _KEY_BYTES] for i in range(0, len(content), _KEY_BYTES)]
        self._starts = [0, *tokens.cumsum(0).tolist()]
        self._checksums = checksums.tolist()
        self._values = values
        self._sound = [False] * sentences

    def values(self, number: int) -> torch.Tensor:
        """*Shape:* `(tokens, features)`, as they are in the file."""
        return self._values[self._starts[number] : self._starts[number + 1]]

    def is_sound(self, number: int) -> bool:
        """Whether a sentence is what was written; its values are read for it once."""
        if not self._sound[number]:
            checksum = _checksum(self.path.parent.name, self.keys[number], self.values(number))
            self._sound[number] = checksum == self._checksums[number]
        return self._sound[number]


def _encode(ids: torch.Tensor, bilm: BiLm, start: LstmState) -> torch.Tensor:
    """*Shape:* ids as `bilm` reads them to `(batch, tokens, features)`, float32 on the CPU."""
    # What is kept must not depend on the precision that a trainer happens to compute in.
    with torch.no_grad(), torch.autocast(ids.device.type, enabled=False):
        layers = bilm.encode(ids, start)
    words = layers[0, :, :, : bilm.options.projection_dim]
    return torch.cat([words, *layers[1:]], dim=2).float().cpu()


def _unpack(packed: torch.Tensor, options: BiLmOptions, device: torch.device) -> torch.Tensor:
    """*Shape:* `(batch, tokens, features)` to `(layers, batch, tokens, 2 projection_dim)`, float32."""
    size, outputs = options.projection_dim, (options.n_layers, options.output_dim)
    words, rest = packed.to(device).split([size, math.prod(outputs)], dim=2)
    batch, tokens, _ = packed.shape
    layers = torch.empty(options.n_layers + 1, batch, tokens, options.output_dim, device=device)
    layers[0, :, :, :size] = words
    layers[0, :, :, size:] = words
    layers[1:] = rest.unflatten(2, outputs).permute(2, 0, 1, 3)
    return layers


def _shard_content(source: str, sentences: dict[bytes, torch.Tensor]) -> bytes:
    keys, values = list(sentences), list(sentences.values())
    checksums = [_checksum(source, *sentence) for sentence in sentences.items()]
    return save(
        {
            "keys": torch.frombuffer(bytearray(b"".join(keys)), dtype=torch.uint8).view(-1, _KEY_BYTES),
            "tokens": torch.tensor([len(rows) for rows in values], dtype=torch.int32),
            "checksums": torch.tensor(checksums),
            "values": torch.cat(values),
        }
    )


def _checksum(source: str, key: bytes, values: torch.Tensor) -> int:
    head = source.encode() + key + len(values).to_bytes(4, "little")
    return zlib.crc32(values.numpy().data, zlib.crc32(head))


def _write(path: Path, content: bytes) -> None:
    """All or nothing: the name is there only once the content is on disk."""
    temporary = path.with_name(uuid.uuid4().hex + _TEMPORARY)
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _sizes(root: Path) -> dict[str, int]:
    """The bytes of the shards of each source."""
    sizes: Counter[str] = Counter()
    for about in root.glob(f"*/{_ABOUT}"):
        for shard in about.parent.glob(f"*{_SHARD}"):
            with suppress(FileNotFoundError):
                sizes[shard.parent.name] += shard.stat().st_size
    return sizes


def _modified(path: Path) -> float:
    """Seconds since 1970; 0 for a file that is gone."""
    with suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0


def _hash(parts: Iterable[Any]) -> str:
    """16 hex digits for the bytes of all parts."""
    hashed = hashlib.blake2b(digest_size=8)
    for part in parts:
        hashed.update(part)
    return hashed.hexdigest()
