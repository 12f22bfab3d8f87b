"""
The HDF5 file of `embed` and `embed_file`, in the layout of AllenNLP 0.9's `allennlp elmo`.

| dataset | shape | |
| --- | --- | --- |
| `0`, `1`, ... | `(layers, tokens, dim)` or `(tokens, dim)` | float32; one a line, by its number or key |
| `sentence_to_index` | `(1,)` | a JSON string: `{"the sentence": "0", ...}` |

`lay_out` makes all datasets before the first vector is computed, so that the disk cannot run full on the way.
`VectorFile` writes bytes to their places in the file without HDF5: a killed run can be resumed, and
no vector is copied again. The string of AllenNLP had a variable length, which HDF5 holds in memory. Here its
length is fixed. `json.loads(file["sentence_to_index"][0])` reads both.
"""

import errno
import json
import os
import shutil
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

import h5py
import numpy as np
from h5py import h5d, h5f, h5p, h5s, h5t

from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.common.files import FULL
from elmo_tasks.common.progress import progress
from elmo_tasks.embedding.batches import NumberedSentence
from elmo_tasks.embedding.corpus import Corpus

VECTORS = "vectors.hdf5"
_OTHER_FORMATS = {
    *(".csv", ".json", ".jsonl", ".npy", ".npz", ".parquet", ".pickle", ".pkl", ".pt", ".tsv", ".txt"),
}
_OFFSETS, _INDEX = "offsets", "index"
"""The first byte of each line's dataset in `VECTORS`; and `sentence_to_index` until it is there."""
_OFFSET = struct.Struct("=Q")
WAITING_BATCHES = 4
"""The batches that wait for the disk, at most."""

_MAX_INDEX = 2**31 - 1
"""The bytes of the longest string that numpy, and so h5py, reads."""
_METADATA = 1024
"""More bytes than HDF5 needs for a dataset in addition to its content."""


def check_name(output: FilePath) -> None:
    """Raises `ElmoError` if a file to write has the name of another format, such as `.npz`."""
    path = Path(output)
    if (suffix := path.suffix.lower()) in _OTHER_FORMATS:
        raise ElmoError(
            f"HDF5 is written, not {suffix}", where=output, remedy=f"use {path.with_suffix('.hdf5')}"
        )


def lay_out(
    folder: Path, text: Corpus, *, layers: int | None, dim: int, pooled: bool = False, with_index: bool
) -> None:
    """
    Makes `VECTORS` in `folder`, complete except for the vectors: datasets of a first dimension `layers`,
    unless it is `None`, and without a dimension of tokens if they are `pooled`.

    # Raises
    `ElmoError`: the disk or `sentence_to_index` is too small, or a key of the text is not the name of a
    dataset.
    """
    vectors = (len(text) if pooled else text.tokens) * (layers or 1) * dim
    index_size = text.path.stat().st_size if with_index else 0
    needed = vectors * np.dtype(np.float32).itemsize + index_size + len(text) * _METADATA
    if needed > shutil.disk_usage(folder).free:
        raise _disk_full(folder, needed)
    leading = () if layers is None else (layers,)
    index_offset = _create_datasets(
        folder, text, lambda tokens: (*leading, *(() if pooled else (tokens,)), dim), with_index
    )
    with open(folder / VECTORS, "r+b") as file:
        _reserve(file.fileno(), folder)
        if with_index:
            file.seek(index_offset)
            with open(folder / _INDEX, "rb") as index:
                shutil.copyfileobj(index, file)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def writer_thread(*, waiting: int) -> Iterator[Callable[[Callable[[], object]], None]]:
    """
    Runs the calls that are given to the function of the context one after another on a thread of its own.

    The context ends when all calls have ended. After a call that raised an error no other is run; a later
    call of the function, or the end, raises the error. The function returns when at most `waiting` calls
    wait.
    """
    calls: deque[Future[None]] = deque()

    def run(call: Callable[[], object], before: Future[None] | None) -> None:
        if before is not None:
            before.result()
        call()

    def submit(call: Callable[[], object]) -> None:
        calls.append(pool.submit(run, call, calls[-1] if calls else None))
        if len(calls) > waiting + 1:
            calls.popleft().result()

    with ThreadPoolExecutor(max_workers=1) as pool:
        yield submit
    for call in calls:
        call.result()


class VectorFile:
    """Writes vectors to the datasets that `lay_out` has made, on a thread of its own; see `open`."""

    def __init__(
        self, offsets: BinaryIO, file: BinaryIO, submit: Callable[[Callable[[], object]], None]
    ) -> None:
        self._offsets = offsets
        self._file = file
        self._submit = submit

    @classmethod
    @contextmanager
    def open(cls, folder: Path) -> Iterator["VectorFile"]:
        with (
            open(folder / _OFFSETS, "rb") as offsets,
            open(folder / VECTORS, "r+b") as file,
            writer_thread(waiting=WAITING_BATCHES) as submit,
        ):
            yield cls(offsets, file, submit)

    def write(self, sentences: Sequence[NumberedSentence], vectors: np.ndarray) -> None:
        """
        Writes the vectors of sentences with the numbers of their lines, from 1. Padding is not written.

        *Shape:* `(layers, sentences, longest, dim)`, float32. In a pooled file `longest` is 1.
        """
        self._submit(partial(self._write, sentences, vectors))

    def sync(self, then: Callable[[], object] = lambda: None) -> None:
        """Calls `then` when all vectors before are on the disk."""
        self._submit(partial(self._sync, then))

    def _write(self, sentences: Sequence[NumberedSentence], vectors: np.ndarray) -> None:
        for row, (line, words) in enumerate(sentences):
            self._offsets.seek(_OFFSET.size * (line - 1))
            self._file.seek(*_OFFSET.unpack(self._offsets.read(_OFFSET.size)))
            # Each layer is a block of its own, so that they need not be copied together.
            self._file.writelines(np.ascontiguousarray(layer[row, : len(words)]).data for layer in vectors)

    def _sync(self, then: Callable[[], object]) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        then()


def _create_datasets(
    folder: Path, text: Corpus, shape: Callable[[int], tuple[int, ...]], with_index: bool
) -> int:
    """
    Makes them by h5py's low-level interface, which is several times as fast for many datasets. Returns the
    offset of `sentence_to_index`, whose content is then in `_INDEX`.
    """
    creation, link = _dataset_creation(), _link_creation()
    float32 = h5t.py_create(np.dtype(np.float32))
    space = cache(lambda tokens: h5s.create_simple(shape(tokens)))
    file = _create_file(folder / VECTORS)
    with h5py.File(file), open(folder / _OFFSETS, "wb") as offsets, open(folder / _INDEX, "wb") as index:
        lines = progress(text.items(), work="layout", unit="lines", total=len(text))
        for number, (key, sentence) in enumerate(lines):
            try:
                dataset = h5d.create(
                    file, key.encode(), float32, space(len(sentence.split())), creation, link
                )
            except ValueError as error:
                raise ElmoError(
                    f"the key {key!r} is used twice, or is not the name of a dataset in HDF5 ({error})"
                ) from error
            # An empty dataset has no offset.
            offsets.write(_OFFSET.pack(dataset.get_offset() or 0))
            if with_index:
                index.write(f'{", " if number else "{"}{json.dumps(sentence)}: "{number}"'.encode())
        if not with_index:
            return 0
        index.write(b"}" if len(text) else b"{}")
        size = index.tell()
        if size > _MAX_INDEX:
            raise ElmoError(
                f"sentence_to_index would have {size:,} bytes, and h5py reads {_MAX_INDEX:,} at most",
                remedy="use --forget-sentences to leave it out",
            )
        string = _string_type(size)
        dataset = h5d.create(file, b"sentence_to_index", string, h5s.create_simple((1,)), creation)
        return dataset.get_offset()


def _create_file(path: Path) -> h5f.FileID:
    access, creation = h5p.create(h5p.FILE_ACCESS), h5p.create(h5p.FILE_CREATE)
    access.set_libver_bounds(h5f.LIBVER_V18, h5f.LIBVER_LATEST)
    creation.set_obj_track_times(False)  # equal vectors are equal files
    return h5f.create(os.fsencode(path), h5f.ACC_TRUNC, fcpl=creation, fapl=access)


def _dataset_creation() -> h5p.PropDCID:
    """Allocates a dataset when it is made, so that it can be written without HDF5."""
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


def _reserve(descriptor: int, folder: Path) -> None:
    """Reserves the space of the whole file, where the file system can do so."""
    size = os.fstat(descriptor).st_size
    try:
        os.posix_fallocate(descriptor, 0, size)
    except AttributeError:  # macOS and Windows have none
        return
    except OSError as error:
        if error.errno in FULL:
            raise _disk_full(folder, size) from error
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise


def _disk_full(folder: Path, needed: int) -> ElmoError:
    free = shutil.disk_usage(folder).free
    return ElmoError(f"needs {needed / 1e9:,.3f} GB of disk, {free / 1e9:,.3f} GB are free", where=folder)
