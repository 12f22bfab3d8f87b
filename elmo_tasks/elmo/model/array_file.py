"""
Files of named arrays of untrusted origin, in HDF5, the official format, or in
[safetensors](https://github.com/huggingface/safetensors), which every Python has a reader of.

An array may have a checksum of its name, type, shape and bytes, which is checked if it is there: in HDF5 the
attribute `blake2b` of the dataset, in safetensors an entry of the JSON object `blake2b` in the metadata.
"""

import json
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from elmo_tasks.common.errors import ElmoError, FilePath, errors_as

SAFETENSORS = ".safetensors"
MAX_WEIGHT = 1_000_000
"""The largest weight of a biLM whose vectors are finite; a flipped bit in an exponent turns 0.1 into 1e37."""
_CHECKSUM = "blake2b"
_MAX_TEXT = 1000
"""The most bytes of an attribute."""
_FLOATS = ("F16", "F32", "F64")


def needing_h5py(where: FilePath) -> AbstractContextManager[None]:
    """Returns a context in which h5py is imported for a file; without h5py it raises `ElmoError`."""
    remedy = "pip install h5py, which has no files for Python 3.15 yet"
    return errors_as(ElmoError, "HDF5 needs h5py", ImportError, where=where, remedy=remedy)


@contextmanager
def opened(source: FilePath, content: str) -> Iterator["ArrayFile"]:
    """
    Opens a file. One that is damaged or cut off, another file, or a folder is an `ElmoError`, which says that
    it should hold `content`.
    """
    if stat.S_ISDIR(os.stat(source).st_mode):
        raise ElmoError(f"this is a folder, not a file of {content}", where=source)
    # h5py raises errors of many kinds for a damaged file.
    what = f"not a complete HDF5 or safetensors file of {content}"
    with errors_as(ElmoError, what, where=source):
        if _is_safetensors(source):
            with safe_open(source, "np") as file:
                yield _SafetensorsFile(source, file)
        else:
            with needing_h5py(source):
                import h5py
            with h5py.File(source, "r") as file:
                yield _Hdf5File(source, file)


def _is_safetensors(path: FilePath) -> bool:
    """Tells by the content, since a file from a URL has no suffix."""
    with open(path, "rb") as file:
        # After 8 bytes, its size, comes the header, a JSON object; there HDF5 has the number of a version.
        return file.read(9)[8:] == b"{"


class DatasetError(ElmoError, RuntimeError):
    """A dataset that does not fit the options, for which PyTorch raises a `RuntimeError`."""


class ArrayFile(ABC):
    """An open file. Its arrays, called datasets, have names such as `CNN/b_cnn_0`."""

    def __init__(self, path: FilePath, file: Any) -> None:
        self.path, self._file = os.fspath(path), file

    @abstractmethod
    def names(self) -> Iterable[str]: ...

    @abstractmethod
    def shape(self, dataset: str) -> tuple[int, ...] | None:
        """Returns the shape, `None` if there is no dataset of this name."""

    @abstractmethod
    def attribute(self, name: str) -> str | None:
        """Returns a text that describes the file."""

    @abstractmethod
    def _problem(self, dataset: str) -> str:
        """Returns what the header says against reading the dataset, if anything."""

    @abstractmethod
    def _content(self, dataset: str) -> np.ndarray: ...

    @abstractmethod
    def _checksum(self, dataset: str) -> str | None: ...

    def read(self, dataset: str, shape: tuple[int, ...]) -> np.ndarray:
        """
        Reads a dataset as float32. One of another shape or kind, in another file, different from its
        checksum, or with values above `MAX_WEIGHT` is an `ElmoError`.
        """
        # Before memory is allocated, or another file is read
        stored = self.shape(dataset)
        if stored is None:
            problem = f"{shape} is missing"
        elif stored != shape:
            problem = f"has the shape {stored}, but the options say {shape}"
        else:
            problem = self._problem(dataset)
        array: Any = np.empty(0, np.float32)
        if not problem:
            content = self._content(dataset)
            if self._checksum(dataset) not in (None, _checksum(dataset, content)):
                problem = "is damaged, its checksum differs"
            with np.errstate(over="ignore"):
                array = content.astype(np.float32, copy=False)
            if not -MAX_WEIGHT <= array.min() <= array.max() <= MAX_WEIGHT:
                index = tuple(np.argwhere(~(np.abs(array) <= MAX_WEIGHT))[0].tolist())
                problem = (
                    f"holds {array[index]} at {index}, and weights are finite and at most {MAX_WEIGHT:,}"
                )
        if problem:
            raise DatasetError(f"dataset {dataset} {problem}", where=self.path)
        return array


class _Hdf5File(ArrayFile):
    def _stored(self, name: str) -> Any:
        """Returns the dataset of a name; `None` for a group, and for none."""
        item = self._file.get(name)
        return item if hasattr(item, "shape") else None

    def names(self) -> list[str]:
        names: list[str] = []
        self._file.visit(names.append)
        return [name for name in names if self._stored(name) is not None]

    def shape(self, dataset: str) -> tuple[int, ...] | None:
        stored = self._stored(dataset)
        return None if stored is None else stored.shape

    def attribute(self, name: str) -> str | None:
        return _text_of_fixed_length(self._file.attrs, name)

    def _problem(self, dataset: str) -> str:
        stored = self._stored(dataset)
        if stored.external or stored.is_virtual or stored.file.filename != self._file.filename:
            return "is in another file"
        if stored.dtype.kind != "f":
            return f"has the type {stored.dtype}, which is not floating point"
        # Deflate packs at most 1032 bytes into one.
        max_bytes = os.path.getsize(self.path) * (1032 if stored.chunks else 1)
        stored_bytes = stored.id.get_storage_size()
        if stored_bytes == 0 or stored.nbytes > max_bytes:
            return f"has {stored.nbytes:,} bytes by its header, and the file holds {stored_bytes:,} of them"
        return ""

    def _content(self, dataset: str) -> np.ndarray:
        return self._stored(dataset)[...]

    def _checksum(self, dataset: str) -> str | None:
        return _text_of_fixed_length(self._stored(dataset).attrs, _CHECKSUM)


def _text_of_fixed_length(attributes: Any, name: str) -> str | None:
    """
    Returns an attribute of a file or a dataset, `None` for all that is not such a text. One of variable
    length lies in a heap of HDF5, which reads a damaged heap without end.
    """
    if name not in attributes:
        return None
    kind = attributes.get_id(name).dtype
    return attributes[name].decode() if kind.kind == "S" and kind.itemsize <= _MAX_TEXT else None


class _SafetensorsFile(ArrayFile):
    """Its reader refuses a header whose sizes are not the file's."""

    def __init__(self, path: FilePath, file: Any) -> None:
        super().__init__(path, file)
        self._metadata = file.metadata() or {}
        self._checksums = json.loads(self._metadata.get(_CHECKSUM, "{}"))

    def names(self) -> list[str]:
        return self._file.keys()

    def shape(self, dataset: str) -> tuple[int, ...] | None:
        return tuple(self._file.get_slice(dataset).get_shape()) if dataset in self.names() else None

    def attribute(self, name: str) -> str | None:
        return self._metadata.get(name)

    def _problem(self, dataset: str) -> str:
        kind = self._file.get_slice(dataset).get_dtype()
        return "" if kind in _FLOATS else f"has the type {kind}, not one of {', '.join(_FLOATS)}"

    def _content(self, dataset: str) -> np.ndarray:
        return self._file.get_tensor(dataset)

    def _checksum(self, dataset: str) -> str | None:
        return self._checksums.get(dataset)


def stored_as(dtype: str, dataset: str, array: np.ndarray) -> np.ndarray:
    """Returns a matrix as `dtype`, a vector as float32; values that it cannot hold are an `ElmoError`."""
    with np.errstate(over="ignore"):
        stored = array.astype(dtype if array.ndim > 1 else "float32")
    if not np.isfinite(stored).all():
        largest = np.finfo(stored.dtype).max
        raise ElmoError(
            f"dataset {dataset} holds values up to {np.abs(array).max():.3g}, which {stored.dtype} cannot "
            f"hold; its largest is {largest:.3g}"
        )
    return stored


def check_format(path: FilePath) -> None:
    """Raises `ElmoError` if `write_arrays` would write HDF5, and h5py is missing."""
    if Path(path).suffix != SAFETENSORS:
        with needing_h5py(path):
            import h5py  # noqa: F401


def write_arrays(
    path: FilePath,
    arrays: Iterable[tuple[str, np.ndarray]],
    *,
    attributes: Mapping[str, str | int] | None = None,
) -> None:
    """Writes arrays with checksums, and what describes the file; safetensors if `path` has this suffix."""
    if Path(path).suffix == SAFETENSORS:
        by_name = dict(arrays)
        checksums = {name: _checksum(name, array) for name, array in by_name.items()}
        about = {name: str(value) for name, value in (attributes or {}).items()}
        # One entry for all checksums: the order of entries differs from file to file.
        Path(path).write_bytes(save(by_name, {_CHECKSUM: json.dumps(checksums), **about}))
        return
    with needing_h5py(path):
        import h5py
    with _Writing(path, "w+") as target:
        try:
            with h5py.File(target, "w") as file:
                for name, array in arrays:
                    checksum = _checksum(name, array).encode()
                    file.create_dataset(name, data=array).attrs[_CHECKSUM] = np.bytes_(checksum)
                for name, value in (attributes or {}).items():
                    file.attrs[name] = np.bytes_(value.encode()) if isinstance(value, str) else value
        finally:
            if target.error is not None:
                raise target.error


class _Writing(FileIO):
    """A file that HDF5 writes. HDF5 must not learn of a failed write, after which it ends the process."""

    error: OSError | None = None

    def write(self, content: Any) -> int:
        unwritten = memoryview(content).cast("B")
        try:
            while unwritten:
                unwritten = unwritten[super().write(unwritten) :]
        except OSError as error:
            self.error = self.error or error
        return memoryview(content).nbytes


def _checksum(dataset: str, array: np.ndarray) -> str:
    hashed = blake2b(f"{dataset} {array.dtype.str} {array.shape}".encode(), digest_size=16)
    hashed.update(np.ascontiguousarray(array).data)
    return hashed.hexdigest()
