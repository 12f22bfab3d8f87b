"""Files and folders wherever they are: on a disk, or behind `s3://` and `gs://`, which pyarrow reads."""

import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from io import BufferedReader
from typing import BinaryIO, cast
from urllib.parse import quote

from pyarrow import ArrowException, fs

from elmo_tasks.common.errors import ElmoError

_REMOTE = re.compile(r"(s3|gs|gcs|file)://")
_PLAIN = "/:=@+,~!$&'()*;"
"""What a URI holds as it is, besides letters, digits and `_.-`."""
_BUFFER = 1 << 20


def input_sources(path: str) -> list[str]:
    """
    The files that `path` stands for, in a fixed order: those of `input_files`; behind `s3://`, `gs://` and
    `file://` an object, all below a folder, or what a pattern with `*` matches (there it also matches `/`).
    Those of the store are read where they are, by every worker its part. What stands beside Parquet files
    under a name that begins with `_`, as `_metadata`, is left out.

    # Raises
    `ElmoError`: nothing is there. `ElmoError`: `-`, which no worker could read.
    """
    if path == "-":
        raise ElmoError("found - for stdin, expected files: every worker reads its part of them")
    if not _REMOTE.match(path):
        from elmo_tasks.data.input_files import input_files  # with AllenNLP, which no worker needs

        return _of_data([str(file) for file in input_files(path)])
    (scheme, mark, _), query = path.partition("://"), path.partition("?")[2]
    store, pattern = _of_uri(path)
    folder = pattern.partition("*")[0].rpartition("/")[0] if "*" in pattern else pattern
    with _naming(path):
        (place,) = store.get_file_info([folder])
        below = [place]
        if place.type == fs.FileType.Directory:
            below = store.get_file_info(fs.FileSelector(folder, recursive=True))
    names = sorted(
        file.path
        for file in below
        if file.type == fs.FileType.File
        and ("*" not in pattern or fnmatchcase(file.path, pattern))
        and not any(part.startswith(".") for part in file.path.removeprefix(folder).split("/"))
    )
    if not names:
        raise ElmoError.at(path, found="no file", expected="a file, folder or pattern")
    quoted = [quote(name, safe=_PLAIN) for name in _of_data(names)]
    return [f"{scheme}{mark}{name}" + (f"?{query}" if query else "") for name in quoted]


def _of_data(files: list[str]) -> list[str]:
    """Without what stands beside Parquet files for those who write them: names that begin with `_`."""
    folders = {os.path.dirname(file) for file in files if file.endswith(".parquet")}
    return [
        file
        for file in files
        if not (os.path.basename(file).startswith("_") and os.path.dirname(file) in folders)
    ]


def open_source(source: str, folder: str) -> BinaryIO:
    """
    One of `input_sources`, to be read at any place; a relative path starts at `folder`.

    # Raises
    `OSError`.
    """
    if not _REMOTE.match(source):
        return open(os.path.join(folder, source), "rb")
    store, path = _of_uri(source)
    with _naming(source):
        return cast(BinaryIO, BufferedReader(store.open_input_file(path), _BUFFER))


def byte_size(source: str) -> int:
    """The size of one of `input_sources`."""
    if not _REMOTE.match(source):
        return os.path.getsize(source)
    store, path = _of_uri(source)
    return store.get_file_info([path])[0].size or 0


class Folder:
    """
    A folder to write to. A file appears in it when it is whole; until then its name begins with `_`, and
    holds the machine and the process that write it, so that two never write the same.

    # Parameters

    place : a path, or what `_of_uri` reads.
    """

    def __init__(self, place: str) -> None:
        self.place = place.rstrip("/") or "/"
        remote = _REMOTE.match(place)
        self._local = not remote or place.startswith("file://")
        self._store, self._path = _of_uri(place) if remote else (fs.LocalFileSystem(), os.path.abspath(place))

    def holds(self, source: str) -> bool:
        """Whether one of `input_sources` is below the folder, or in its place."""
        remote = _REMOTE.match(source)
        if self._local != (not remote or source.startswith("file://")):
            return False
        paths = self._path, _of_uri(source)[1] if remote else os.path.abspath(source)
        folder, file = map(os.path.realpath, paths) if self._local else paths
        return file == folder or file.startswith(f"{folder.rstrip('/')}/")

    def create(self) -> None:
        """
        # Raises
        `OSError`.
        """
        with _naming(self.place):
            self._store.create_dir(self._path, recursive=True)

    def exists(self) -> bool:
        with _naming(self.place):
            return self._store.get_file_info([self._path])[0].type == fs.FileType.Directory

    def names(self) -> set[str]:
        """The names of what is in the folder; none where it is not there."""
        with _naming(self.place):
            if self._store.get_file_info([self._path])[0].type == fs.FileType.File:
                raise ElmoError(f"{self.place} is a file, expected a folder, or nothing")
            selector = fs.FileSelector(self._path, allow_not_found=True)
            return {info.base_name for info in self._store.get_file_info(selector)}

    def read(self, name: str) -> bytes:
        with self._store.open_input_stream(f"{self._path}/{name}") as file:
            return file.read()

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """
        The file `name`, which appears at the end; if an exception leaves the context, it does not.

        # Raises
        `OSError`.
        """
        partial = f"{self._path}/_{name}.{socket.gethostname()}.{os.getpid()}"
        try:
            with self._store.open_output_stream(partial) as file:
                yield file
            if self._local:
                with open(partial, "rb") as written:
                    os.fsync(written.fileno())
            self._store.move(partial, f"{self._path}/{name}")
        except BaseException:
            with suppress(OSError, ArrowException):
                self._store.delete_file(partial)
            raise

    def remove(self, names: Iterable[str]) -> None:
        """Files that are not there are no error: another process has removed them."""
        for name in names:
            with suppress(FileNotFoundError):
                self._store.delete_file(f"{self._path}/{name}")

    def remove_itself(self) -> None:
        self._store.delete_dir(self._path)


def split_place(place: str) -> tuple[Folder, str]:
    """The folder of a file, and the file's name in it."""
    folder, _, name = place.rpartition("/")
    return Folder((folder or "/") if "/" in place else "."), name


def _of_uri(uri: str) -> tuple[fs.FileSystem, str]:
    try:
        return fs.FileSystem.from_uri(uri)
    except (ArrowException, ValueError) as error:
        raise ElmoError(f"{uri}: {error}") from error


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """The stores' errors do not all say what they are about."""
    try:
        yield
    except OSError as error:
        if place in str(error):
            raise
        raise OSError(f"{place}: {error}") from error
