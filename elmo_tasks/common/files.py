"""
Files: those that come with the project, lines of text, JSON by the standard (RFC 8259), writing that leaves a
whole file or none, and the unpacking of untrusted archives, within one folder and bounds of size.
"""

import errno
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import zipfile
import zlib
from bz2 import BZ2File
from codecs import lookup
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from gzip import GzipFile
from io import BufferedReader, TextIOWrapper
from itertools import chain, islice
from lzma import LZMAError, LZMAFile
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, NoReturn, cast

from filelock import FileLock

from elmo_tasks.common.errors import ElmoError, FilePath, nearest_name

_PACKAGE = Path(__file__).parents[1]
_BUNDLED = ("fixtures", "pretrained", "training_configs")
STDIN = "standard input"
"""The name of the input `-` in errors."""
UNREADABLE = (OSError, EOFError, zlib.error, LZMAError)
"""The errors of reading a file that is missing, damaged or cut off."""
_BLOCK, _LINES_OF_BLOCK = 1 << 16, 1000
"""The characters, and the lines, that are read at a time."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The `errno` of writing to a full disk, or beyond a quota or the largest file."""


def bundled(name: str) -> Path:
    """
    Returns the path of a file or folder that comes with the project: `fixtures/...`, `pretrained/...` or
    `training_configs/...`. They are next to the package in a checkout, and inside it in a wheel.
    """
    inside = _PACKAGE / name
    return inside if inside.exists() else _PACKAGE.parent / name


def local_or_bundled(path: FilePath) -> str:
    """Returns the path, `~` expanded; or, if nothing is there, the file of the project with this name."""
    text = os.path.expanduser(os.fspath(path))
    if text.partition("/")[0] in _BUNDLED and not os.path.exists(text) and (inside := bundled(text)).exists():
        return str(inside)
    return text


def did_you_mean_config(path: FilePath) -> str:
    """Suggests, for a path that does not exist, a config of the project."""
    configs = bundled("training_configs")
    nearest = nearest_name(Path(path).stem, (config.stem for config in configs.glob("*.jsonnet")))
    return f"; did you mean '{configs.name}/{nearest}.jsonnet'?" if nearest else ""


def open_input(path: FilePath) -> BufferedReader:
    """Opens a file or a pipe, or standard input for `-`."""
    return cast(BufferedReader, sys.stdin.buffer) if path == "-" else open(path, "rb")


def decompressed(file: BufferedReader) -> BinaryIO:
    """
    Returns the content of a gzip, bzip2, xz or lzma file, known by its first bytes, or else the file itself.
    """
    head = file.peek(10)[:10]
    if head.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, GzipFile(fileobj=file))
    if head.startswith(b"BZh") and head[4:] == b"1AY&SY":
        return cast(BinaryIO, BZ2File(file))
    return cast(BinaryIO, LZMAFile(file) if head.startswith((b"\xfd7zXZ\0", b"]\0\0")) else file)


def is_archive(file: Path) -> bool:
    """Returns whether a file is a zip archive or a tar, packed or not; `False` if it cannot be read."""
    try:
        if not file.is_file():
            return False
        with open(file, "rb") as content:
            return zipfile.is_zipfile(content) or (content.seek(0) == 0 and tarfile.is_tarfile(content))
    except UNREADABLE:
        return False


def refuse_special_files(files: Iterable[Path]) -> None:
    """
    Raises `ElmoError` for a pipe, a device, or a link to one among the files: reading it may wait or never
    end. Files that do not exist, and folders, are left to those that read them.
    """
    for file in files:
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise ElmoError(f"{file.name} is neither a file nor a folder", where=file.parent)


def read_utf8(path: FilePath, *, max_bytes: int, where: str | None = None) -> str:
    """
    Reads a whole file. `where` names it in errors, by default `path`: `ElmoError` for more than `max_bytes`
    bytes, or one that is not UTF-8; `OSError`.
    """
    with open(path, "rb") as file:
        content = file.read(max_bytes + 1)
    where = where or str(path)
    if len(content) > max_bytes:
        raise ElmoError(f"the file has more than {max_bytes:,} bytes", where=where)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ElmoError(not_utf8(error), where=where) from error


def not_utf8(error: UnicodeDecodeError, offset: int = 0) -> str:
    """Names the byte that is not UTF-8, in a text of which the decoded part starts at `offset`."""
    return f"the byte 0x{error.object[error.start]:02x} at offset {offset + error.start} is not UTF-8"


def text_lines(
    path: FilePath, *, max_bytes: int | None = None, encoding: str = "utf-8"
) -> Iterator[tuple[int, str]]:
    """Yields the lines of a text with their numbers, see `line_blocks`."""
    return chain.from_iterable(line_blocks(path, max_bytes=max_bytes, encoding=encoding))


def line_blocks(
    path: FilePath, *, max_bytes: int | None = None, encoding: str = "utf-8"
) -> Iterator[list[tuple[int, str]]]:
    """
    Yields the lines of a text with their numbers, from 1, without their ends (LF or CRLF), some at a time.

    Only LF ends a line, or CR in a text that has no LF: what else Unicode calls a line break (U+0085, U+2028,
    a form feed) is text.
    A byte order mark is dropped, and a packed file is unpacked.
    A line of more than `max_bytes` bytes comes in several pieces, all with its number. It is cut after a
    blank or tab, or between two characters where there is none: memory does not grow with the line. Only
    UTF-8 has pieces.

    # Raises
    `ElmoError`, with the line, after the lines before it: a byte that is not of the encoding (its offset
    counts from 0 in the unpacked text), a damaged file, or a file that cannot be opened. `LookupError`:
    Python has no such encoding.
    """
    block: list[tuple[int, str]] = []
    size = 0
    try:
        for numbered in _lines_of_any_feed(_lines_before_feeds(path, max_bytes, encoding)):
            block.append(numbered)
            size += len(numbered[1])
            if size > _BLOCK or len(block) == _LINES_OF_BLOCK:
                yield block
                block, size = [], 0
    except ElmoError:
        yield block
        raise
    yield block


def _lines_of_any_feed(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Splits the only line between LF at each CR."""
    begin = list(islice(lines, 1))
    if begin and "\r" in begin[0][1]:
        second = next(lines, None)
        if second is None:
            begin = list(enumerate(begin[0][1].removesuffix("\r").split("\r"), start=1))
        else:
            begin.append(second)
    return chain(begin, lines)


def _lines_before_feeds(path: FilePath, max_bytes: int | None, encoding: str) -> Iterator[tuple[int, str]]:
    """Yields the lines between LF alone."""
    line_number = offset = 0
    is_utf8 = lookup(encoding).name == "utf-8"
    try:
        with open_input(path) as packed:
            file = decompressed(packed)
            if not is_utf8:
                for line_number, text in enumerate(
                    TextIOWrapper(file, encoding=encoding, newline="\n"), start=1
                ):
                    yield line_number, text.removesuffix("\n").removesuffix("\r")
                return
            for line_number, line in _line_pieces(file, max_bytes) if max_bytes else enumerate(file, start=1):
                content = line[:-1].removesuffix(b"\r") if line.endswith(b"\n") else line
                try:
                    text = content.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise ElmoError(not_utf8(error, offset), where=path, line=line_number) from error
                yield line_number, text if offset else text.removeprefix("\ufeff")
                offset += len(line)
    except (UnicodeError, *UNREADABLE) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise ElmoError(what, where=path, line=line_number + 1) from error


def _line_pieces(file: BinaryIO, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yields the numbered lines, and lines of more than `max_bytes` bytes in pieces."""
    line_number, remainder = 1, b""
    while line := remainder + file.readline(max_bytes - len(remainder)):
        cut = len(line)
        if len(line) == max_bytes and not line.endswith(b"\n"):
            cut = max(line.rfind(b" "), line.rfind(b"\t")) + 1 or len(line) - 1
            while 0 < cut < len(line) and line[cut] & 0xC0 == 0x80:  # inside a character
                cut -= 1
        yield line_number, line[: cut or max_bytes]
        remainder = line[cut or max_bytes :]
        line_number += line.endswith(b"\n")


@contextmanager
def atomic_file(path: Path, *, partial: str | None = None) -> Iterator[BinaryIO]:
    """
    Opens a file to write to. Its content appears at `path` when it is whole and on the disk. Until then the
    file `partial` in the same folder holds the content, and `path` is unchanged, also after an exception.
    """
    unfinished = path.with_name(partial or f"{path.name}.partial")
    try:
        with open(unfinished, "wb") as file:
            yield file
        put_in_place(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def full_disk_errors(path: FilePath) -> Iterator[None]:
    """
    Names the file that is written in the `OSError` of a full disk, also where a library that writes through
    Python has raised an error of its own after it.
    """
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not (isinstance(cause, OSError) and cause.errno in FULL):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        full = OSError(cause.errno, cause.strerror, str(path))
        for note in getattr(error, "__notes__", ()):
            full.add_note(note)
        raise full from error


def put_in_place(unfinished: Path, path: Path) -> None:
    """Renames a file to `path`, as soon as its content is on the disk. A file at `path` is replaced."""
    with open(unfinished, "rb+") as file:  # Windows flushes files that are open for writing
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def refuse_inputs_as_outputs(
    outputs: Iterable[FilePath], sources: Collection[FilePath], *, error: type[Exception]
) -> None:
    """Raises `error` if one of the outputs is one of the sources, under whatever name."""
    existing = [source for source in sources if os.path.exists(source)]
    for output in outputs:
        if os.path.exists(output) and any(os.path.samefile(source, output) for source in existing):
            raise error(f"{output} is the input; choose another file for the output")


MAX_JSON = 1 << 20
"""The size of a file that `read_json_object` reads, unless it gets another."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_TEXT_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*+"|(NaN|-?Infinity)')


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


_decode_strictly = json.JSONDecoder(parse_constant=_refuse_constant).decode


def read_json_object(
    path: FilePath, *, where: str | None = None, max_bytes: int = MAX_JSON
) -> dict[str, Any]:
    """
    Reads a JSON file that holds an object. `where` names it in errors, by default `path`: `ElmoError`, with
    the line, for a file that is too large, not UTF-8, not JSON (see `json_value`), or not an object.
    """
    where = where or str(path)
    try:
        content = json_value(read_utf8(path, max_bytes=max_bytes, where=where))
    except json.JSONDecodeError as error:
        raise ElmoError(f"not JSON: {error}", where=where, line=error.lineno) from error
    if not isinstance(content, dict):
        raise ElmoError("not a JSON object", where=where)
    return content


def json_value(text: str) -> Any:
    """
    Returns the value of a JSON text.

    # Raises
    `json.JSONDecodeError`, with the position: not JSON; half of a surrogate pair; `NaN` or an infinity. With
    the start of the text: a number of more digits, or more levels of lists and objects, than Python reads.
    """
    try:
        value = _decode_strictly(text)
        if surrogate := _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        if isinstance(error, UnicodeEncodeError) and surrogate:
            problem, position = "Half of a surrogate pair is not a character", surrogate.start()
        else:
            constants = (match.start() for match in _TEXT_OR_CONSTANT.finditer(text) if match[1])
            problem, position = str(error), next(constants, 0)
        raise json.JSONDecodeError(problem, text, position) from error
    return value


MAX_MEMBERS = 200_000
MAX_BYTES, MAX_TIMES = 1 << 30, 200
"""The most that an archive may hold, unpacked: bytes, or times its own size if that is more."""
_MAX_READ = 1 << 24
"""`tarfile` reads contents in small pieces, but a header of any size in one piece."""


def unpacked(file: Path, cache: Path) -> Path:
    """Returns the folder in the folder `cache` with the content of an archive, see `unpack`."""
    from cached_path.util import resource_to_filename  # takes a sixth of a second

    status = file.stat()
    name = resource_to_filename(file.resolve(), f"{status.st_mtime_ns} {status.st_ctime_ns} {status.st_size}")
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
    Unpacks a zip archive or a tar: plain, or packed by gzip, bzip2, xz or lzma, read to the end for its
    checksum.

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
