"""Files and folders on a disk, or in a store at `s3://` or `gs://`, which pyarrow reads and writes."""

import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from io import BufferedReader, UnsupportedOperation
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from elmo_tasks.common.errors import ElmoError, errors_as
from elmo_tasks.common.files import open_input

_REMOTE = re.compile(r"(s3|gs|gcs|file)://")
_URI = re.compile(r"[\w+.-]+://")
MARK = "_elmo_tasks"
"""The empty file that marks a folder OUT.partial as made by a command."""
WORK = "_work"
"""The folder in OUT.partial for the files of one process."""
_UNQUOTED = "/:=@+,~!$&'()*;"
"""The characters that a URI holds unquoted, in addition to letters, digits and `_.-`."""


def input_sources(path: str) -> list[str]:
    """
    Returns the files of `path`, in a fixed order.

    On a disk these are the files of `input_files`; in a store an object, all objects below a folder, or
    those that match a pattern with `*`, which also matches `/`. If there are none, that is an `ElmoError`.
    """
    if not _REMOTE.match(path):
        from elmo_tasks.data.input_files import input_files  # with AllenNLP, which no worker needs

        return list(map(str, input_files(path)))
    (scheme, mark, _), query = path.partition("://"), path.partition("?")[2]
    store, pattern = _store_of(path)
    folder = pattern.partition("*")[0].rpartition("/")[0] if "*" in pattern else pattern
    names = [
        name
        for name in store.find(folder)
        if ("*" not in pattern or fnmatchcase(name, pattern))
        and not any(part.startswith(".") for part in name.removeprefix(folder).split("/"))
    ]
    if not names:
        raise ElmoError("no such file, folder or pattern", where=path)
    return [f"{scheme}{mark}{quote(name, safe=_UNQUOTED)}" + (f"?{query}" if query else "") for name in names]


def texts_among(sources: list[str], path: str, outputs: Iterable[str]) -> list[str]:
    """
    Returns the `sources`, the files of `path`, without the files that a command writes: at the locations
    `outputs`, and next to Parquet files with names that begin with `_`, such as `_metadata`. If no other file
    is there, that is an `ElmoError`.
    """
    tables = {os.path.dirname(source) for source in sources if source.endswith(".parquet")}
    folders = list(map(_resolved, outputs))

    def is_written(source: str) -> bool:
        if os.path.basename(source).startswith("_") and os.path.dirname(source) in tables:
            return True
        location = _resolved(source)
        return any(location == folder or location.startswith(f"{folder}/") for folder in folders)

    texts = [source for source in sources if not is_written(source)]
    if not texts:
        raise ElmoError(f"{path} is what this command writes", remedy="name another OUT")
    return texts


def open_source(source: str, folder: str) -> BufferedReader:
    """Opens one of `input_sources`, or standard input for `-`. A relative path starts at `folder`."""
    if not _REMOTE.match(source):
        return open_input(source if source == "-" else os.path.join(folder, source))
    store, path = _store_of(source)
    return BufferedReader(store.open(path, "rb"), 1 << 20)


def input_size(sources: Iterable[str], folder: str) -> int | None:
    """Returns the bytes of `input_sources`; `None` for a pipe. Relative paths start at `folder`."""
    if any(source == "-" or Path(folder, source).is_fifo() for source in sources):
        return None
    stores = (_store_of(path if _REMOTE.match(path) else os.path.join(folder, path)) for path in sources)
    return sum(store.size(path) or 0 for store, path in stores)


def exists(location: str) -> bool:
    store, path = _store_of(location)
    return store.exists(path)


class Folder:
    """
    A folder to write to. A file appears in it when it is complete. Until then its name begins with `_` and
    holds the machine and the process that write it, so that two never write the same file.
    """

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/") or "/"
        self._store, self._path = _store_of(self.location)
        self._is_on_disk = isinstance(self._store, LocalFileSystem)

    @property
    def path(self) -> Path:
        return Path(self._path)

    def create(self) -> None:
        self._store.makedirs(self._path, exist_ok=True)

    def names(self) -> set[str]:
        """Returns the names of the files in the folder, or none if it does not exist."""
        if self._store.isfile(self._path):
            raise ElmoError(f"{self.location} is a file, not a folder", remedy="name another OUT")
        with suppress(FileNotFoundError):
            return {os.path.basename(name) for name in self._store.ls(self._path, detail=False)}
        return set()

    def is_link(self, name: str) -> bool:
        return self._is_on_disk and os.path.islink(f"{self._path}/{name}")

    def read(self, name: str) -> bytes:
        return self._store.cat_file(f"{self._path}/{name}")

    @contextmanager
    def writing(self, name: str, *, to: str | None = None) -> Iterator[BinaryIO]:
        """Writes the file `name`, or the file at `to`; after an exception it does not appear."""
        partial = f"{self._path}/_{name}.{socket.gethostname()}.{os.getpid()}"
        try:
            with self._create(partial) as file:
                yield file
                file.flush()
                with suppress(UnsupportedOperation):  # in a store
                    os.fsync(file.fileno())
            # `mv` of a disk moves the file into a folder to which a link leads.
            rename = os.replace if self._is_on_disk else self._store.mv
            rename(partial, _store_of(to)[1] if to else f"{self._path}/{name}")
        finally:
            with suppress(OSError):
                self._store.rm_file(partial)

    def _create(self, path: str) -> BinaryIO:
        """Opens a new file. On a disk, a link of its name is replaced, not followed."""
        if not self._is_on_disk:
            return self._store.open(path, "wb")
        with suppress(FileNotFoundError):
            os.unlink(path)
        return open(path, "xb")

    def remove(self, names: Iterable[str]) -> None:
        """Removes files. Another process may have removed them before."""
        for name in names:
            with suppress(FileNotFoundError):
                self._store.rm_file(f"{self._path}/{name}")

    def remove_itself(self) -> None:
        self._store.rm(self._path, recursive=True)


def _store_of(location: str) -> tuple[AbstractFileSystem, str]:
    if not _REMOTE.match(location):
        if _URI.match(location):
            raise ElmoError("this store is not supported", where=location, remedy="use s3:// or gs://")
        return LocalFileSystem(), os.path.abspath(location)
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow.fs import FileSystem

    with errors_as(ElmoError, "this is not a location in a store", ValueError, where=location):
        store, path = FileSystem.from_uri(location)
    return ArrowFSWrapper(store, skip_instance_cache=True), path


def _resolved(location: str) -> str:
    store, path = _store_of(location)
    return Path(path).resolve().as_posix() if "local" in store.protocol else f"{store.protocol}://{path}"
