"""
Which layers of a biLM are asked for, and whether they can be right.

The HDF5 file of `embed` and `embed_file`, in the layout of AllenNLP 0.9's `allennlp elmo`:

| dataset | shape | |
| --- | --- | --- |
| `0`, `1`, ... | `(layers, tokens, dim)` or `(tokens, dim)` | float32; one a line, by its number or key |
| `sentence_to_index` | `(1,)` | a JSON string: `{"the sentence": "0", ...}` |

All datasets get their offsets in the file before the first vector is known. From then on HDF5 has no part in
it: vectors are bytes written to their offsets, so that a kill leaves a file that a later run can go on with,
and the disk cannot run full on the way. The former command's string had a variable length, which HDF5 holds
in memory as a whole; here its length is fixed. `json.loads(file["sentence_to_index"][0])` reads both.
"""

import errno
import json
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import h5py
import numpy as np
import torch
from h5py import h5d, h5f, h5p, h5s, h5t

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.progress import progress
from elmo_tasks.embedding.corpus import Corpus, NumberedSentence

# ==== embedding.layers
LAYERS = ("all", "top", "average")
NOT_FINITE = (
    "found vectors that are not finite, expected finite ones; "
    "the weights are damaged, or the options are of another biLM"
)


def chosen_layers(layers: torch.Tensor, which: str) -> torch.Tensor:
    """*Shape:* `(layers, ...)` to the same, or to one layer: the last (`top`), or the mean (`average`)."""
    if which == "top":
        return layers[-1:]
    return layers.mean(dim=0, keepdim=True) if which == "average" else layers


def first_not_finite(layers: torch.Tensor) -> int | None:
    """*Shape:* `(layers, sentences, longest, dim)`. The first sentence with a value that is not finite."""
    if torch.isfinite(layers).all():
        return None
    return int((~torch.isfinite(layers)).any(dim=3).any(dim=2).any(dim=0).int().argmax())


# ==== embedding.vector_file
VECTORS = "vectors.hdf5"
_OFFSETS = "places"
"""Where each dataset's content starts in `VECTORS`: 8 bytes a line, and the offset of the index."""

_MAX_INDEX = 2**31 - 1
"""Bytes of the longest string that numpy, and so h5py, reads."""
_METADATA = 1024
"""More bytes than HDF5 needs for a dataset beside its content."""


def lay_out(
    folder: Path, text: Corpus, *, layers: int | None, dim: int, pooled: bool = False, with_index: bool
) -> None:
    """
    Makes `VECTORS` in `folder`, whole but for its vectors.

    `layers` is the first dimension of a dataset, or `None` for datasets without it; a `pooled` one has no
    dimension of tokens.

    # Raises
    `ElmoError`: the disk is too small, the index too large, or a key of the text no name of a dataset.
    """
    index_size = sum(map(len, _index(text))) if with_index else 0
    if index_size > _MAX_INDEX:
        raise ElmoError(
            f"sentence_to_index would have {index_size:,} bytes, and h5py reads {_MAX_INDEX:,} at most; "
            "--forget-sentences leaves it out"
        )
    vectors_size = (
        (len(text) if pooled else text.tokens) * (layers or 1) * dim * np.dtype(np.float32).itemsize
    )
    needed = vectors_size + index_size + len(text) * _METADATA
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise _disk_full(folder, needed)
    leading = () if layers is None else (layers,)
    _create_datasets(folder, text, lambda tokens: (*leading, *(() if pooled else (tokens,)), dim), index_size)
    with open(folder / VECTORS, "r+b") as file:
        _reserve(file.fileno(), folder)
        if with_index:
            file.seek(int(_read_offsets(folder)[-1]))
            file.writelines(_index(text))
        file.flush()
        os.fsync(file.fileno())


class VectorFile:
    """Puts vectors at the offsets that `lay_out` found for them. A context manager."""

    def __init__(self, folder: Path) -> None:
        self._offsets = _read_offsets(folder)
        self._file = open(folder / VECTORS, "r+b")  # noqa: SIM115  closed by __exit__

    def __enter__(self) -> "VectorFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, sentences: Sequence[NumberedSentence], vectors: np.ndarray) -> None:
        """
        *Shape:* `vectors` `(layers, sentences, longest, dim)`, float32; padding is not written. Of a pooled
        file `longest` is 1, whatever the sentences.
        """
        for row, (line, words) in enumerate(sentences):
            self._file.seek(int(self._offsets[line]))
            # There is one block for each layer, so that they need not be copied together.
            self._file.writelines(np.ascontiguousarray(layer[row, : len(words)]).data for layer in vectors)

    def sync(self) -> None:
        """Returns when all that was written is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())


def _index(text: Corpus) -> Iterator[bytes]:
    """`sentence_to_index` in pieces. Of equal sentences JSON takes the last, as the former command did."""
    yield b"{"
    for line, sentence in enumerate(text):
        yield f'{", " if line else ""}{json.dumps(sentence)}: "{line}"'.encode()
    yield b"}"


def _create_datasets(
    folder: Path, text: Corpus, shape: Callable[[int], tuple[int, ...]], index_size: int
) -> None:
    """h5py's low-level interface: its high-level one takes several times as long for many datasets."""
    creation, link = _dataset_creation(), _link_creation()
    number = h5t.py_create(np.dtype(np.float32))
    space = cache(lambda tokens: h5s.create_simple(shape(tokens)))
    file = _create_file(folder / VECTORS)
    with h5py.File(file), open(folder / _OFFSETS, "wb") as offsets:
        lines = progress(text, work="layout", unit="lines")
        for key, sentence in zip(text.keys(), lines, strict=True):
            try:
                if "\0" in key:
                    raise ValueError("names end at a NUL")
                dataset = h5d.create(file, key.encode(), number, space(len(sentence.split())), creation, link)
            except ValueError as error:
                raise ElmoError(
                    f"found the key {key!r}, expected one that no other sentence has, and that HDF5 takes "
                    f"for the name of a dataset ({error})"
                ) from error
            # Without content, there is no offset.
            offsets.write(struct.pack("=Q", dataset.get_offset() or 0))
        index_offset = 0
        if index_size:
            string = _string_type(index_size)
            dataset = h5d.create(file, b"sentence_to_index", string, h5s.create_simple((1,)), creation)
            index_offset = dataset.get_offset()
        offsets.write(struct.pack("=Q", index_offset))


def _create_file(path: Path) -> h5f.FileID:
    access, creation = h5p.create(h5p.FILE_ACCESS), h5p.create(h5p.FILE_CREATE)
    access.set_libver_bounds(h5f.LIBVER_V18, h5f.LIBVER_LATEST)
    # No times: equal vectors are equal files.
    creation.set_obj_track_times(False)
    return h5f.create(os.fsencode(path), h5f.ACC_TRUNC, fcpl=creation, fapl=access)


def _dataset_creation() -> h5p.PropDCID:
    """Datasets that have their place in the file at once, and are written to it past HDF5."""
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_layout(h5d.CONTIGUOUS)
    creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5d.FILL_TIME_NEVER)
    # No times: equal vectors are equal files.
    creation.set_obj_track_times(False)
    return creation


def _link_creation() -> h5p.PropLCID:
    link = h5p.create(h5p.LINK_CREATE)
    link.set_char_encoding(h5t.CSET_UTF8)
    link.set_create_intermediate_group(True)  # for a slash in a key
    return link


def _string_type(size: int) -> h5t.TypeStringID:
    string = h5t.C_S1.copy()
    string.set_size(size)
    string.set_cset(h5t.CSET_UTF8)
    string.set_strpad(h5t.STR_NULLPAD)
    return string


def _read_offsets(folder: Path) -> np.ndarray:
    return np.memmap(folder / _OFFSETS, dtype=np.uint64, mode="r")


def _reserve(descriptor: int, folder: Path) -> None:
    """Takes the space of the whole file from the disk, where the file system can do so."""
    size = os.fstat(descriptor).st_size
    try:
        os.posix_fallocate(descriptor, 0, size)
    except AttributeError:  # macOS has none
        return
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise _disk_full(folder, size) from error
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise


def _disk_full(folder: Path, needed: int) -> ElmoError:
    free = shutil.disk_usage(folder).free
    return ElmoError(f"{folder}: needs {needed / 1e9:,.3f} GB of disk, {free / 1e9:,.3f} GB are free")
