"""
Files: those that come with the project, lines of text, JSON by the standard (RFC 8259), and writing that
leaves a whole file or none. Python's own reader of JSON takes `NaN` and half of a surrogate pair.

It needs no AllenNLP.
"""

import errno
import json
import os
import re
import tarfile
import zipfile
import zlib
from bz2 import BZ2File
from codecs import BOM_UTF8, lookup
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from gzip import GzipFile
from io import BufferedReader, TextIOWrapper
from lzma import LZMAError, LZMAFile
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from elmo_tasks.common.errors import ElmoError, FilePath

_PACKAGE = Path(__file__).parents[1]
_BUNDLED = ("fixtures", "pretrained", "training_configs")
UNREADABLE = (OSError, EOFError, zlib.error, LZMAError)
"""The errors of reading a file that is missing, damaged or cut off."""
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


def decompressed(file: BufferedReader) -> BinaryIO:
    """Returns the content of a gzip, bzip2 or xz file, known by its first bytes, or else the file itself."""
    head = file.peek(10)[:10]
    if head.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, GzipFile(fileobj=file))
    if head.startswith(b"BZh") and head[4:] == b"1AY&SY":
        return cast(BinaryIO, BZ2File(file))
    return cast(BinaryIO, LZMAFile(file) if head.startswith(b"\xfd7zXZ\0") else file)


def is_archive(file: Path) -> bool:
    """Returns whether a file is a zip archive or a tar, packed or not; `False` if it cannot be read."""
    try:
        return file.is_file() and (zipfile.is_zipfile(file) or tarfile.is_tarfile(file))
    except UNREADABLE:
        return False


def raw_lines(file: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines with their ends, without a byte order mark before the first."""
    for index, line in enumerate(file):
        yield line if index else line.removeprefix(BOM_UTF8)


def read_utf8(path: FilePath, *, max_bytes: int, where: str | None = None) -> str:
    """
    Reads a whole file of UTF-8. `where` names it in errors, by default `path`.

    # Raises
    `ElmoError`: it has more than `max_bytes` bytes, or is not UTF-8. `OSError`.
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
    """
    Yields the lines of a text with their numbers, from 1, without their ends (LF or CRLF).

    Only LF ends a line: what else Unicode calls a line break (U+0085, U+2028, a form feed) is text.
    A byte order mark is dropped, and a packed file is unpacked.
    A line of more than `max_bytes` bytes comes in several pieces, all with its number. It is cut after a
    blank or tab, or between two characters where there is none: memory does not grow with the line. Only
    UTF-8 has pieces.

    # Raises
    `ElmoError`, with the line: a byte that is not of the encoding (its offset counts from 0 in the unpacked
    text), a damaged file, or a file that cannot be opened. `LookupError`: Python has no such encoding.
    """
    line_number = offset = 0
    is_utf8 = lookup(encoding).name == "utf-8"
    try:
        with open(path, "rb") as packed:
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
def naming_when_full(path: FilePath) -> Iterator[None]:
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


def check_sources_stay(
    outputs: Iterable[FilePath], sources: Collection[FilePath], *, error: type[Exception]
) -> None:
    """Raises `error` if one of the outputs is one of the sources, under whatever name."""
    existing = [source for source in sources if os.path.exists(source)]
    for output in outputs:
        if os.path.exists(output) and any(os.path.samefile(source, output) for source in existing):
            raise error(f"{output} is the input; choose another file for the output")


MAX_JSON = 1 << 20
"""The size of a file that `read_json_object` reads."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_TEXT_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*+"|(NaN|-?Infinity)')


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


_decode_strictly = json.JSONDecoder(parse_constant=_refuse_constant).decode


def read_json_object(path: FilePath, *, where: str | None = None) -> dict[str, Any]:
    """
    Reads a JSON file that holds an object. `where` names it in errors, by default `path`.

    # Raises
    `ElmoError`, with the file and the line: it has more than `MAX_JSON`, is not UTF-8, not JSON (see
    `json_value`), or not an object.
    """
    where = where or str(path)
    try:
        content = json_value(read_utf8(path, max_bytes=MAX_JSON, where=where))
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
    except UnicodeEncodeError as error:
        assert surrogate is not None
        problem = "Half of a surrogate pair is not a character"
        raise json.JSONDecodeError(problem, text, surrogate.start()) from error
    except (ValueError, RecursionError) as error:
        constants = (match.start() for match in _TEXT_OR_CONSTANT.finditer(text) if match[1])
        raise json.JSONDecodeError(str(error), text, next(constants, 0)) from error
    return value
