"""Unpacking archives that nobody vouches for: nothing is written elsewhere, nor more than stated bounds."""

import bz2
import gzip
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from allennlp.common import file_utils
from filelock import FileLock

MAX_MEMBERS = 200_000
MAX_BYTES, MAX_TIMES = 1 << 30, 200
"""What an archive may hold, unpacked: so many bytes, or so many times its own size if that is more."""
_MAX_READ = 1 << 24
"""`tarfile` reads contents in small pieces, and a header of any size at once."""
_OPENERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
}
"""By the first bytes of a file."""
_ZIP = b"PK"
_TAR_HEADER = 512
"""Bytes."""


def is_archive(file: Path) -> bool:
    """Whether a zip archive or a tar is there, packed or not; not so if nothing of it can be read."""
    if not file.is_file():
        return False
    try:
        with open(file, "rb") as raw:
            begin = raw.read(_TAR_HEADER)
        if begin.startswith(_ZIP):
            return zipfile.is_zipfile(file)
        # A text, of which there may be many, is told by its first bytes: the header of a tar holds zeros
        return (begin.startswith(tuple(_OPENERS)) or b"\0" in begin) and tarfile.is_tarfile(file)
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return False


def unpacked(file: Path) -> Path:
    """
    The folder of AllenNLP's cache with the content of an archive; it is made once for each state of `file`.

    # Raises
    See `unpack`.
    """
    from cached_path.util import resource_to_filename  # takes a sixth of a second

    status, cache = file.stat(), Path(file_utils.CACHE_DIRECTORY).expanduser()
    name = resource_to_filename(file.resolve(), f"{status.st_mtime_ns} {status.st_size}")
    folder = cache / f"{name}-unpacked"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            unfinished = tempfile.mkdtemp(dir=cache)
            try:
                unpack(file, Path(unfinished))
                os.replace(unfinished, folder)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def unpack(file: Path, folder: Path, *, links: bool = True) -> None:
    """
    Unpacks a zip archive or a tar: plain, or packed by gzip, bzip2 or xz, whose checksum is read to the end.

    # Parameters

    links : symbolic links that stay inside are taken.

    # Raises
    `ValueError`, with the file and the member: it leads outside, is neither a file nor a folder nor such a
    link, or the archive holds more than `MAX_MEMBERS`, or than `MAX_BYTES` and `MAX_TIMES`. `OSError`,
    `EOFError`, `tarfile.TarError`, `zipfile.BadZipFile`, `zlib.error` or `lzma.LZMAError`: it is damaged.
    """
    bound = _Bound(file)
    with open(file, "rb") as raw:
        begin = raw.peek()
        # The end alone may be that of a zip within a tar.
        if begin.startswith(_ZIP):
            _unpack_zip(raw, folder, bound)
            return
        opener = next((opener for magic, opener in _OPENERS.items() if begin.startswith(magic)), None)
        stream: Any = _BoundedStream(opener(raw) if opener else raw, bound)
        with tarfile.open(name=str(file), fileobj=stream, mode="r:") as tar:
            # Python's own check, where it has one, is asked too; before 3.14 it has to be asked.
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            try:
                tar.extractall(folder, members=_checked_members(tar, bound, links=links))
            except (KeyError, RecursionError) as error:  # `tarfile` looks for what a link leads to
                raise ValueError(
                    f"{file}: found a link that cannot be made, so it is not unpacked"
                ) from error
            stream.seek(tar.offset)
            while rest := stream.read(1 << 16):
                if rest.strip(b"\0"):
                    raise ValueError(f"{file}: found no member's header, expected one at byte {tar.offset}")


def _unpack_zip(raw: BinaryIO, folder: Path, bound: "_Bound") -> None:
    with zipfile.ZipFile(raw) as archive:
        for member in archive.infolist():
            bound.add(member.filename, member.file_size)
            _check_inside(bound.file, member.filename, member.filename)
        # The names are checked.
        archive.extractall(folder)  # nosec B202


class _Bound:
    """Counts members and their bytes."""

    def __init__(self, file: Path) -> None:
        self.file, self.bytes = file, max(MAX_BYTES, MAX_TIMES * file.stat().st_size)
        self._members = self._size = 0

    def add(self, member: str, size: int) -> None:
        self._members += 1
        self._size += size
        if self._members > MAX_MEMBERS or self._size > self.bytes:
            raise self.error(f"{self._members:,} members and {self._size:,} bytes up to {member!r}")

    def error(self, contents: str) -> ValueError:
        return ValueError(
            f"{self.file}: found {contents}, expected at most {MAX_MEMBERS:,} members and {self.bytes:,} "
            "bytes, so it is not unpacked"
        )


class _BoundedStream:
    """What `tarfile` reads from, no further than the bound; it may skip members, and read long headers."""

    def __init__(self, stream: Any, bound: _Bound) -> None:
        self._stream, self._bound = stream, bound
        self.tell = stream.tell

    def read(self, size: int) -> bytes:
        if size > _MAX_READ:
            raise self._bound.error(f"a header of {size:,} bytes")
        self._check(self.tell())
        return self._stream.read(size)

    def seek(self, position: int) -> int:
        self._check(position)
        return self._stream.seek(position)

    def _check(self, position: int) -> None:
        # Headers, and the filling behind contents, come on top.
        if position > self._bound.bytes + 2048 * MAX_MEMBERS:
            raise self._bound.error(f"{position:,} bytes")


def _checked_members(tar: tarfile.TarFile, bound: _Bound, *, links: bool) -> Iterator[tarfile.TarInfo]:
    """
    The members, each when it is to be unpacked. No member's path leads through a link, and where a link leads
    climbs at its begin alone, from a folder that is no link: so the names say where each ends, in any order.
    """
    files: dict[PurePosixPath, tarfile.TarInfo] = {}
    linked: set[PurePosixPath] = set()
    for member in tar:
        bound.add(member.name, member.size)
        path = PurePosixPath(member.name)
        if not (member.isreg() or member.isdir() or member.islnk() or (links and member.issym())):
            raise _refused(bound.file, f"{member.name!r} is neither a file nor a folder")
        _check_inside(bound.file, member.name, member.name, linked)
        if path in files:
            raise _refused(bound.file, f"{member.name!r} comes twice")
        if member.islnk():  # a second name of a file before it, which becomes a copy
            if (original := files.get(PurePosixPath(member.linkname))) is None:
                raise _outside(bound.file, member.name, member.linkname)
            member = copy(original)
            member.name = str(path)
            bound.add(member.name, member.size)
        if member.issym():
            target = PurePosixPath(member.linkname)
            climbs = next((n for n, part in enumerate(target.parts) if part != ".."), len(target.parts))
            if target.is_absolute() or climbs > len(path.parent.parts):
                raise _outside(bound.file, member.name, member.linkname)
            _check_inside(bound.file, member.name, str(PurePosixPath(*target.parts[climbs:])))
            linked.add(path)
        elif not member.isdir():
            files[path] = member
        yield member


def _check_inside(
    file: Path, member: str, name: str, linked: set[PurePosixPath] | frozenset[PurePosixPath] = frozenset()
) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not linked.isdisjoint([path, *path.parents]):
        raise _outside(file, member, name)


def _outside(file: Path, member: str, name: str) -> ValueError:
    return _refused(
        file, f"{member!r} leads to {name!r}, outside of the folder that the archive is unpacked to"
    )


def _refused(file: Path, problem: str) -> ValueError:
    return ValueError(f"{file}: the member {problem}, so it is not unpacked")
