"""Unpacking of untrusted archives, within one folder and bounds of size."""

import os
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO

from allennlp.common import file_utils
from filelock import FileLock

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import decompressed

MAX_MEMBERS = 200_000
MAX_BYTES, MAX_TIMES = 1 << 30, 200
"""The most that an archive may hold, unpacked: bytes, or times its own size if that is more."""
_MAX_READ = 1 << 24
"""`tarfile` reads contents in small pieces, but a header of any size in one piece."""


def unpacked(file: Path) -> Path:
    """Returns the folder of AllenNLP's cache with the content of an archive, see `unpack`."""
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


def unpack(file: Path, folder: Path) -> None:
    """
    Unpacks a zip archive or a tar: plain, or packed by gzip, bzip2 or xz, whose checksum is read to the end.

    # Raises
    `ElmoError`, with the file and the member: it leads outside of the folder, or is neither a file nor a
    folder, as a symbolic link; or the archive holds more than `MAX_MEMBERS`, or `MAX_BYTES` and `MAX_TIMES`.
    `OSError`, `EOFError`, `tarfile.TarError`, `zipfile.BadZipFile`, `zlib.error` or `lzma.LZMAError`: it is
    damaged.
    """
    bound = _Bound(file)
    with open(file, "rb") as raw:
        # Zip archives are recognized by their first bytes: a tar may end with one.
        if raw.peek().startswith(b"PK"):
            with zipfile.ZipFile(raw) as archive:
                for member in archive.infolist():
                    bound.add(member.filename, member.file_size)
                # The names are checked.
                archive.extractall(folder)  # nosec B202
            return
        stream: Any = _BoundedStream(decompressed(raw), bound)
        with tarfile.open(name=str(file), fileobj=stream, mode="r:") as tar:
            files: dict[PurePosixPath, tarfile.TarInfo] = {}
            for entry in tar:
                # The second name of a file, as `include_in_archive` makes for checkpoints, becomes a copy.
                source = files.get(PurePosixPath(entry.linkname)) if entry.islnk() else entry
                bound.add(entry.name, source.size if source else 0)
                if source is None or not (source.isreg() or source.isdir()):
                    raise bound.refused(f"{entry.name!r} is neither a file nor a folder")
                path = folder / entry.name
                (path if source.isdir() else path.parent).mkdir(parents=True, exist_ok=True)
                if source.isreg():
                    files[PurePosixPath(entry.name)] = source
                    content: Any = tar.extractfile(source)
                    with open(path, "wb") as target:
                        shutil.copyfileobj(content, target)
            stream.seek(tar.offset)
            while block := stream.read(1 << 16):
                if block.strip(b"\0"):
                    raise ElmoError(f"a damaged header at byte {tar.offset}", where=file)


class _Bound:
    """The members and bytes of an archive, counted and checked one after the other."""

    def __init__(self, file: Path) -> None:
        self.file, self.bytes = file, max(MAX_BYTES, MAX_TIMES * file.stat().st_size)
        self._members = self._size = 0

    def add(self, member: str, size: int) -> None:
        self._members += 1
        self._size += size
        if self._members > MAX_MEMBERS or self._size > self.bytes:
            raise self.exceeded(f"{self._members:,} members and {self._size:,} bytes up to {member!r}")
        path = PurePath(member)  # On Windows it knows drives and backslashes.
        if path.anchor or ".." in path.parts:
            raise self.refused(f"{member!r} leads outside of the folder that the archive is unpacked to")

    def refused(self, problem: str) -> ElmoError:
        return ElmoError(f"not unpacked: the member {problem}", where=self.file)

    def exceeded(self, contents: str) -> ElmoError:
        return ElmoError(
            f"not unpacked: {contents} are more than {MAX_MEMBERS:,} members or {self.bytes:,} bytes",
            where=self.file,
        )


class _BoundedStream:
    """The stream of a tar, which can be read and sought up to the bound, and whose headers are bounded."""

    def __init__(self, stream: BinaryIO, bound: _Bound) -> None:
        self._stream, self._bound = stream, bound
        self.tell = stream.tell

    def read(self, size: int) -> bytes:
        if size > _MAX_READ:
            raise self._bound.exceeded(f"the {size:,} bytes of a header")
        self._check(self.tell())
        return self._stream.read(size)

    def seek(self, position: int) -> int:
        self._check(position)
        return self._stream.seek(position)

    def _check(self, position: int) -> None:
        # Headers, and the padding after contents, come on top.
        if position > self._bound.bytes + 2048 * MAX_MEMBERS:
            raise self._bound.exceeded(f"{position:,} bytes")
