"""
Arrays in HDF5 files that nobody vouches for: what is damaged, or cannot be right, is never read.

A dataset may have an attribute `blake2b`, a checksum of its name, type, shape and bytes, as
`allennlp elmo export` adds it; it is checked where it is there.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

import h5py
import numpy as np

from elmo_tasks.elmo.model.errors import ElmoError, FilePath

LARGEST_WEIGHT = 1_000_000
"""Of a biLM whose vectors are finite; a bit that flips in an exponent makes 1e37 of 0.1."""
_CHECKSUM = "blake2b"


@contextmanager
def opened(source: FilePath, content: str) -> Iterator[h5py.File]:
    """
    # Parameters

    content : what is expected in the file, for the error.

    # Raises
    `ElmoError`, with the file: it is not HDF5, or cut off. `FileNotFoundError`.
    """
    try:
        with h5py.File(source, "r") as file:
            yield file
    except (FileNotFoundError, ElmoError):
        raise
    except Exception as error:  # a damaged file makes h5py raise errors of many kinds
        raise ElmoError(f"{source}: not a whole HDF5 file of {content} ({error})") from error


def read_array(file: h5py.File, dataset: str, shape: tuple[int, ...], *, hint: str = "") -> np.ndarray:
    """
    A dataset as float32.

    # Parameters

    shape : that the options say.
    hint : what else is to be said of another shape.

    # Raises
    `ElmoError`, with the file and the dataset: it is missing, of another shape, not of floating point, in
    another file, or other than its checksum says; values that are not finite or above `LARGEST_WEIGHT`.
    """
    path, stored = file.filename, file.get(dataset)
    if not isinstance(stored, h5py.Dataset):
        raise ElmoError(f"{path}: dataset {dataset} is missing, expected shape {shape}")
    if stored.shape != shape:
        raise ElmoError(
            f"{path}: dataset {dataset} has shape {stored.shape}, expected {shape} from the options{hint}"
        )
    _refuse_unreadable(stored, dataset, path)
    content = stored[...]
    checksum = stored.attrs.get(_CHECKSUM)
    if checksum is not None and checksum != _checksum(dataset, content):
        raise ElmoError(f"{path}: dataset {dataset} is damaged, its checksum differs")
    with np.errstate(over="ignore"):
        array = content.astype(np.float32)
    if not -LARGEST_WEIGHT <= array.min() <= array.max() <= LARGEST_WEIGHT:
        place = tuple(np.argwhere(~(np.abs(array) <= LARGEST_WEIGHT))[0].tolist())
        what = "that are too large" if np.isfinite(array[place]) else "that are not finite"
        raise ElmoError(
            f"{path}: dataset {dataset} holds values {what}, the first {array[place]} at {place}; expected "
            f"at most {LARGEST_WEIGHT:,}"
        )
    return array


def write_array(file: h5py.File, dataset: str, array: np.ndarray, dtype: str) -> None:
    """
    Writes a matrix, or what has more dimensions, as `dtype`; a vector as float32.

    # Raises
    `ElmoError`, with the dataset: values that are not finite, or too large for `dtype`.
    """
    with np.errstate(over="ignore"):
        stored = array.astype(dtype if array.ndim > 1 else "float32")
    if not np.isfinite(stored).all():
        raise ElmoError(
            f"dataset {dataset} holds values up to {np.abs(array).max():.3g}, expected at most "
            f"{np.finfo(stored.dtype).max:.3g}, the largest of {stored.dtype}"
        )
    file.create_dataset(dataset, data=stored)


def add_checksums(path: FilePath) -> None:
    """Gives each dataset of a file its checksum; the content stays as it is."""
    with h5py.File(path, "r+") as file:
        datasets: list[str] = []
        file.visititems(lambda name, item: datasets.append(name) if isinstance(item, h5py.Dataset) else None)
        for name in datasets:
            file[name].attrs[_CHECKSUM] = _checksum(name, file[name][...])


def _refuse_unreadable(stored: h5py.Dataset, dataset: str, path: str) -> None:
    """Before anything is allocated, or read from other files."""
    if stored.external or stored.is_virtual or stored.file.filename != path:
        raise ElmoError(f"{path}: dataset {dataset} is in another file, expected it in this one")
    if stored.dtype.kind != "f":
        raise ElmoError(f"{path}: dataset {dataset} has the type {stored.dtype}, expected floating point")
    # Deflate packs at most 1032 bytes into one.
    most = os.path.getsize(path) * (1032 if stored.chunks else 1)
    if stored.id.get_storage_size() == 0 or stored.nbytes > most:
        raise ElmoError(
            f"{path}: dataset {dataset} has {stored.nbytes:,} bytes by its header, and the file holds "
            f"{stored.id.get_storage_size():,} of them"
        )


def _checksum(dataset: str, array: np.ndarray) -> str:
    hashed = blake2b(f"{dataset} {array.dtype.str} {array.shape}".encode(), digest_size=16)
    hashed.update(np.ascontiguousarray(array).data)
    return hashed.hexdigest()
