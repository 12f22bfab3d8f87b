"""
The HDF5 file of `embed` and `embed_file`, in the layout of AllenNLP 0.9's `allennlp elmo`.

| dataset | shape | |
| --- | --- | --- |
| `0`, `1`, ... | `(layers, tokens, dim)` or `(tokens, dim)` | float32; one a line, by its number or key |
| `sentence_to_index` | `(1,)` | a JSON string: `{"the sentence": "0", ...}` |

`lay_out` gives all datasets their offsets in the file before the first vector is known. From then on
`VectorFile` writes bytes to these offsets without HDF5, so that a later run can resume after a kill, and the
disk cannot run full on the way. The string of the former command had a variable length, which HDF5 holds in
memory as a whole; here its length is fixed. `json.loads(file["sentence_to_index"][0])` reads both.
"""

import errno
import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import h5py
import numpy as np
from h5py import h5d, h5f, h5p, h5s, h5t

from elmo_tasks.common.errors import ElmoError, FilePath
from elmo_tasks.common.files import FULL
from elmo_tasks.common.progress import progress
from elmo_tasks.embedding.batches import NumberedSentence
from elmo_tasks.embedding.corpus import NUMBER, Corpus, number_at

VECTORS = "vectors.hdf5"
_OTHER_FORMATS = {
    *(".csv", ".json", ".jsonl", ".npy", ".npz", ".parquet", ".pickle", ".pkl", ".pt", ".tsv", ".txt"),
}
_OFFSETS = "places"
"""The offsets in `VECTORS`: 8 bytes for each line's dataset, and for the index."""
WAITING_BATCHES = 4
"""The batches that wait for the disk, at most."""

_MAX_INDEX = 2**31 - 1
"""The bytes of the longest string that numpy, and so h5py, reads."""
_COMPARED = 100
"""The datasets whose shape tells whether a file was made with the same layers."""
_SAME = "the result of the same text and options; --force makes it anew"
_METADATA = 1024
"""More bytes than HDF5 needs for a dataset beside its content."""


def check_name(output: FilePath) -> None:
    """Raises `ElmoError` if a file to write has the name of another format, such as `.npz`."""
    path = Path(output)
    if (suffix := path.suffix.lower()) in _OTHER_FORMATS:
        expected = f"{path.with_suffix('.hdf5')}, since HDF5 is written"
        raise ElmoError.at(output, found=f"the name of a {suffix} file", expected=expected)


def lay_out(
    folder: Path, text: Corpus, *, layers: int | None, dim: int, pooled: bool = False, with_index: bool
) -> None:
    """
    Makes `VECTORS` in `folder`, complete except for the vectors: datasets of a first dimension `layers`,
    unless it is `None`, and without a dimension of tokens if they are `pooled`. A disk that is too small, an
    index that is too large, and a key of the text that is no name of a dataset are an `ElmoError`.
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
    _create_datasets(folder, text, _shapes(layers, dim, pooled), index_size)
    with open(folder / VECTORS, "r+b") as file:
        _reserve(file.fileno(), folder)
        if with_index:
            with open(folder / _OFFSETS, "rb") as offsets:
                file.seek(number_at(offsets, len(text)))
            file.writelines(_index(text))
        file.flush()
        os.fsync(file.fileno())


def check_finished(
    path: FilePath, text: Corpus, *, layers: int | None, dim: int, pooled: bool = False
) -> None:
    """
    Raises `ElmoError` if a file that `lay_out` has made shows that its arguments were other ones: by the
    index that the text was, and by the shapes of the first datasets that the others were.
    """
    shape = _shapes(layers, dim, pooled)
    with h5py.File(path) as file:
        index = file.get("sentence_to_index")
        if index is not None and json.loads(index[0]) != json.loads(b"".join(_index(text))):
            raise ElmoError.at(path, found="the vectors of another text", expected=_SAME)
        for key, sentence in islice(zip(text.keys(), text, strict=True), _COMPARED):
            found = getattr(file.get(key), "shape", None)
            if found != shape(len(sentence.split())):
                raise ElmoError.at(path, found=f"the shape {found} of the dataset {key!r}", expected=_SAME)


def _shapes(layers: int | None, dim: int, pooled: bool) -> Callable[[int], tuple[int, ...]]:
    """Returns the function that gives the shape of the dataset of so many tokens."""
    leading = () if layers is None else (layers,)
    return lambda tokens: (*leading, *(() if pooled else (tokens,)), dim)


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
    """Writes vectors to the offsets that `lay_out` found for them, on a thread of its own; see `open`."""

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
            self._file.seek(number_at(self._offsets, line - 1))
            # There is one block for each layer, so that they need not be copied together.
            self._file.writelines(np.ascontiguousarray(layer[row, : len(words)]).data for layer in vectors)

    def _sync(self, then: Callable[[], object]) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        then()


def _index(text: Corpus) -> Iterator[bytes]:
    """Yields `sentence_to_index` in pieces; JSON takes the last of equal sentences."""
    yield b"{"
    for line, sentence in enumerate(text):
        yield f'{", " if line else ""}{json.dumps(sentence)}: "{line}"'.encode()
    yield b"}"


def _create_datasets(
    folder: Path, text: Corpus, shape: Callable[[int], tuple[int, ...]], index_size: int
) -> None:
    """Makes them by h5py's low-level interface, which is several times as fast for many datasets."""
    creation, link = _dataset_creation(), _link_creation()
    float32 = h5t.py_create(np.dtype(np.float32))
    space = cache(lambda tokens: h5s.create_simple(shape(tokens)))
    file = _create_file(folder / VECTORS)
    with h5py.File(file), open(folder / _OFFSETS, "wb") as offsets:
        lines = progress(text, work="layout", unit="lines")
        for key, sentence in zip(text.keys(), lines, strict=True):
            try:
                if "\0" in key:
                    raise ValueError("names end at a NUL")
                dataset = h5d.create(
                    file, key.encode(), float32, space(len(sentence.split())), creation, link
                )
            except ValueError as error:
                raise ElmoError(
                    f"found the key {key!r}, expected one that no other sentence has, and that HDF5 takes "
                    f"for the name of a dataset ({error})"
                ) from error
            # A dataset without content has no offset.
            offsets.write(NUMBER.pack(dataset.get_offset() or 0))
        index_offset = 0
        if index_size:
            string = _string_type(index_size)
            dataset = h5d.create(file, b"sentence_to_index", string, h5s.create_simple((1,)), creation)
            index_offset = dataset.get_offset()
        offsets.write(NUMBER.pack(index_offset))


def _create_file(path: Path) -> h5f.FileID:
    access, creation = h5p.create(h5p.FILE_ACCESS), h5p.create(h5p.FILE_CREATE)
    access.set_libver_bounds(h5f.LIBVER_V18, h5f.LIBVER_LATEST)
    creation.set_obj_track_times(False)  # equal vectors are equal files
    return h5f.create(os.fsencode(path), h5f.ACC_TRUNC, fcpl=creation, fapl=access)


def _dataset_creation() -> h5p.PropDCID:
    """Allocates a dataset in the file at once, so that it can be written without HDF5."""
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
    return ElmoError(f"{folder}: needs {needed / 1e9:,.3f} GB of disk, {free / 1e9:,.3f} GB are free")
