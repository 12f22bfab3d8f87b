"""
From the path in a configuration to the lines of files: the same for all readers.

Nothing is skipped without a word: no file, a broken file and a byte that is not UTF-8 are errors
that name the place.
"""

import glob
import os
import zlib
from collections.abc import Iterator
from gzip import GzipFile
from pathlib import Path
from typing import BinaryIO

from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path

from elmo_tasks.data.unpacking import is_archive, unpacked

_GZIP_MAGIC = b"\x1f\x8b"


class InputError(ConfigurationError):
    """Something is wrong with an input: the message says where, what, and what would be right."""

    @classmethod
    def at(
        cls, path: str | os.PathLike[str], line: int | None = None, *, found: str, expected: str
    ) -> "InputError":
        """`FILE, line N: found ..., expected ...`; without a line, of the file as a whole."""
        where = f"{os.fspath(path)}" + ("" if line is None else f", line {line}")
        return cls(f"{where}: found {found}, expected {expected}")


def input_files(path: str | os.PathLike[str]) -> list[Path]:
    """
    The files that `path` stands for, in a fixed order.

    - A file: that file.
    - A folder: all files below it, at any depth, except hidden files and folders (a leading dot).
    - A pattern with `*`, `?`, `[...]` or `**`: what it matches, folders as above.
    - A URL (`https://`, `s3://`, `gs://`, `hf://`, `file://`): fetched once and kept in AllenNLP's
      cache; an archive counts as a folder.
    - `archive.zip!member`, also `.tar.gz` and behind a URL: a file or folder in an archive.

    # Raises
    `InputError`, with `path`: nothing is there.
    """
    text = os.path.expanduser(os.fspath(path))
    if os.path.exists(text):
        files = _below(text)
    elif "://" in text or _is_archive_member(text):
        files = _below(_fetch(text))
    else:
        matches = glob.glob(text, recursive=True)
        files = sorted({file for match in matches for file in _below(match)})
    if not files:
        raise InputError.at(path, found="no file", expected="a file, folder, pattern or URL")
    return files


def read_lines(path: str | os.PathLike[str], *, longest: int | None = None) -> Iterator[tuple[int, str]]:
    """
    The lines of a UTF-8 text with their numbers, from 1, without their ends (LF or CRLF).

    Only LF ends a line: what else Unicode calls a line break (U+0085, U+2028, a form feed) is text.
    A byte order mark is dropped. A file that begins like gzip is unpacked, whatever its name.
    A line of more than `longest` bytes comes in several pieces, all with its number, cut behind a blank,
    or between two characters where there is none: memory does not grow with the line.

    # Raises
    `InputError`, with the line: a byte that is not UTF-8 (its offset counts from 0 in the unpacked
    text), a broken gzip file, or a file that cannot be opened.
    """
    number = offset = 0
    try:
        with open(path, "rb") as raw:
            packed = raw.peek(2).startswith(_GZIP_MAGIC)
            file = GzipFile(fileobj=raw) if packed else raw
            for number, line in _pieces(file, longest) if longest else enumerate(file, start=1):
                content = line[:-1].removesuffix(b"\r") if line.endswith(b"\n") else line
                try:
                    text = content.decode("utf-8")
                except UnicodeDecodeError as error:
                    found = f"the byte 0x{content[error.start]:02x} at offset {offset + error.start}"
                    raise InputError.at(path, number, found=found, expected="UTF-8") from error
                yield number, text if offset else text.removeprefix("\ufeff")
                offset += len(line)
    except (OSError, EOFError, zlib.error) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise InputError.at(path, number + 1, found=found, expected="a readable file") from error


def _pieces(file: BinaryIO | GzipFile, longest: int) -> Iterator[tuple[int, bytes]]:
    """The numbered lines, those of more than `longest` bytes in pieces."""
    number, rest = 1, b""
    while line := rest + file.readline(longest - len(rest)):
        cut = len(line)
        if len(line) == longest and not line.endswith(b"\n"):
            cut = line.rfind(b" ") + 1 or len(line) - 1
            while 0 < cut < len(line) and line[cut] & 0xC0 == 0x80:  # inside a character
                cut -= 1
        yield number, line[: cut or longest]
        rest = line[cut or longest :]
        number += line.endswith(b"\n")


def _below(path: str) -> list[Path]:
    """`path` itself, or the files below it; links are followed, each folder is read once."""
    if not os.path.isdir(path):
        return [Path(path)]
    files: list[Path] = []
    visited: set[str] = set()
    for folder, subfolders, names in os.walk(path, followlinks=True):
        if os.path.realpath(folder) in visited:
            subfolders.clear()
            continue
        visited.add(os.path.realpath(folder))
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        files.extend(Path(folder, name) for name in names if not name.startswith("."))
    return sorted(files)


def _is_archive_member(text: str) -> bool:
    archive, mark, _ = text.partition("!")
    return bool(mark) and os.path.isfile(archive)


def _fetch(text: str) -> str:
    name, in_archive, member = text.partition("!")
    try:
        file = Path(cached_path(name))
        if not is_archive(file):
            if in_archive:
                raise ValueError(f"{name} is no archive")
            return str(file)
        path = (folder := unpacked(file)) / member
        if not path.resolve().is_relative_to(folder.resolve()) or not path.exists():
            raise FileNotFoundError(f"{member!r} not found in {name}")
        return str(path)
    except Exception as error:  # each kind of store and archive raises its own classes, with no common base
        raise InputError.at(
            text, found=f"{type(error).__name__}: {error}", expected="something to fetch"
        ) from error
