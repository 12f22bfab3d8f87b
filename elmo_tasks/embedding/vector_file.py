"""
The HDF5 file of `embed` and `embed_file`, in the layout of AllenNLP 0.9's `allennlp elmo`.

| dataset | shape | |
| --- | --- | --- |
| the line's number or key | `(layers, tokens, dim)` or `(tokens, dim)` | float32 or float16 |
| `sentence_to_index` | `(1,)` | a JSON string: `{"the sentence": "0", ...}` |

The string of AllenNLP had a variable length, which HDF5 holds in memory. Here its length is fixed.
`json.loads(file["sentence_to_index"][0])` reads both.
"""

import os
import shutil
from array import array
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import h5py
import numpy as np
from h5py import h5d, h5f, h5p, h5s, h5t

from elmo_tasks.common.errors import ElmoError, FilePath, errors_as
from elmo_tasks.embedding.corpus import Corpus

_OTHER_FORMATS = {
    *(".csv", ".json", ".jsonl", ".npy", ".npz", ".parquet", ".pickle", ".pkl", ".pt", ".tsv", ".txt"),
}
_MAX_INDEX = 2**31 - 1
"""The bytes of the longest string that numpy, and so h5py, reads."""
_METADATA = 1024
"""More bytes than HDF5 needs for a dataset in addition to its content."""


def check_name(output: FilePath) -> None:
    path = Path(output)
    if (suffix := path.suffix.lower()) in _OTHER_FORMATS:
        raise ElmoError(
            f"HDF5 is written, not {suffix}", where=output, remedy=f"use {path.with_suffix('.hdf5')}"
        )


def check_writable(folder: Path, text: Corpus, *, size: int, with_index: bool) -> None:
    """Raises `ElmoError` if the disk, HDF5 or a key of the text forbids vectors of `size` bytes in all."""
    index = sum(map(len, text.sentence_to_index())) if with_index else 0
    if index > _MAX_INDEX:
        raise ElmoError(
            f"sentence_to_index would have {index:,} bytes, and h5py reads {_MAX_INDEX:,} at most",
            remedy="use --forget-sentences to leave it out",
        )
    needed = size + index + len(text) * _METADATA
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ElmoError(f"needs {needed / 1e9:,.3f} GB of disk, {free / 1e9:,.3f} GB are free", where=folder)
    if text.has_keys:
        _check_keys(folder / "keys.hdf5", text)


def _check_keys(path: Path, text: Corpus) -> None:
    """Makes an empty dataset for each key in a temporary file: HDF5 itself tells which keys it takes."""
    link, float32 = _link_creation(), h5t.py_create(np.dtype(np.float32))
    with h5py.File(_create_file(path)) as file:
        for key, _ in text.keyed_lines():
            what = f"the key {key!r} is used twice, or is not the name of a dataset in HDF5"
            with errors_as(ElmoError, what, ValueError):
                h5d.create(file.id, key.encode(), float32, h5s.create(h5s.NULL), lcpl=link)
    path.unlink()


def write_vectors(
    path: Path,
    text: Corpus,
    vectors: Iterable[np.ndarray],
    *,
    shape: Callable[[int], tuple[int, ...]],
    dtype: str = "float32",
    with_index: bool,
) -> None:
    """
    Writes a file that does not exist yet. HDF5 makes the datasets, and the vectors are written to their
    places without it, since HDF5 crashes if the disk is full.

    # Parameters

    vectors : an array of `dtype` for each line.
    shape : the shape of a line's dataset, by its number of tokens.
    """
    offsets = array("Q")
    creation, link = _dataset_creation(), _link_creation()
    numbers = h5t.py_create(np.dtype(dtype))
    space = cache(lambda tokens: h5s.create_simple(shape(tokens)))
    with h5py.File(_create_file(path)) as file:
        # h5py's low-level interface is several times as fast for many datasets.
        for key, sentence in text.keyed_lines():
            dataset = h5d.create(file.id, key.encode(), numbers, space(len(sentence.split())), creation, link)
            # An empty dataset has no offset.
            offsets.append(dataset.get_offset() or 0)
        if with_index:
            string = _string_type(sum(map(len, text.sentence_to_index())))
            dataset = h5d.create(file.id, b"sentence_to_index", string, h5s.create_simple((1,)), creation)
            offsets.append(dataset.get_offset())
    with open(path, "r+b") as content:
        for offset, layers in zip(offsets, vectors, strict=False):
            content.seek(offset)
            # Each layer is a block of its own, so that they need not be copied together.
            content.writelines(np.ascontiguousarray(layer).data for layer in layers)
        if with_index:
            content.seek(offsets[-1])
            content.writelines(text.sentence_to_index())


def _create_file(path: Path) -> h5f.FileID:
    access, creation = h5p.create(h5p.FILE_ACCESS), h5p.create(h5p.FILE_CREATE)
    access.set_libver_bounds(h5f.LIBVER_V18, h5f.LIBVER_LATEST)
    creation.set_obj_track_times(False)  # equal vectors are equal files
    return h5f.create(os.fsencode(path), h5f.ACC_EXCL, fcpl=creation, fapl=access)


def _dataset_creation() -> h5p.PropDCID:
    """Allocates a dataset when it is made, so that its place is known."""
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_layout(h5d.CONTIGUOUS)
    creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5d.FILL_TIME_NEVER)
    creation.set_obj_track_times(False)  # equal vectors are equal files
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
