"""One biLM in memory for all users of the same files, and the choice of a layer."""

from functools import lru_cache
from numbers import Integral
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.machine import Device
from elmo_tasks.elmo.files import Precision, Source
from elmo_tasks.embedding import ElmoEmbedder

AVERAGE = "average"

_read_lock = Lock()


class BiLmFiles(NamedTuple):
    """The files of a biLM and how to run it, see `ElmoEmbedder`."""

    options_file: Source | None = None
    weight_file: Source | None = None
    vocabulary_file: Source | None = None
    precision: Precision = "float32"
    cuda_device: Device = -1

    def embedder(self) -> ElmoEmbedder:
        """Returns the embedder of these files; the last one stays in memory until a file changes."""
        changed = tuple(_modification_times(file) for file in self[:3] if file is not None)
        with _read_lock:
            return _read_embedder(self, changed)


def _modification_times(name: Source) -> tuple[int, ...]:
    path = Path(name).expanduser()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return tuple(file.stat().st_mtime_ns for file in files if file.exists())


@lru_cache(maxsize=1)
def _read_embedder(files: BiLmFiles, changed: tuple[tuple[int, ...], ...]) -> ElmoEmbedder:
    return ElmoEmbedder(
        files.options_file,
        files.weight_file,
        files.cuda_device,
        vocabulary_file=files.vocabulary_file,
        precision=files.precision,
        progress=False,
    )


def check_layer(layer: int | str, num_layers: int) -> None:
    """Raises `ElmoError` unless `layer` is `average` or a number, negative from the top."""
    if layer == AVERAGE or (isinstance(layer, Integral) and -num_layers <= layer < num_layers):
        return
    raise ElmoError(f"layer {layer!r} must be {AVERAGE!r} or a number from {-num_layers} to {num_layers - 1}")


def chosen_layer(layers: np.ndarray, layer: int | str) -> np.ndarray:
    """Returns the layer, or the mean of all. *Shape:* `(layers, tokens, dim)` to `(tokens, dim)`."""
    return layers.mean(axis=0) if layer == AVERAGE else layers[int(layer)]
