"""The lines of a text file, gzip or not: the same for all that read one. It needs no AllenNLP."""

import os
import zlib
from collections.abc import Iterator
from gzip import GzipFile
from typing import BinaryIO

from elmo_tasks.common.errors import ElmoError

_GZIP_MAGIC = b"\x1f\x8b"


def read_lines(path: str | os.PathLike[str], *, longest: int | None = None) -> Iterator[tuple[int, str]]:
    """
    The lines of a UTF-8 text with their numbers, from 1, without their ends (LF or CRLF).

    Only LF ends a line: what else Unicode calls a line break (U+0085, U+2028, a form feed) is text.
    A byte order mark is dropped. A file that begins like gzip is unpacked, whatever its name.
    A line of more than `longest` bytes comes in several pieces, all with its number, cut behind a blank
    or tab, or between two characters where there is none: memory does not grow with the line.

    # Raises
    `ElmoError`, with the line: a byte that is not UTF-8 (its offset counts from 0 in the unpacked
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
                    raise ElmoError.at(path, number, found=found, expected="UTF-8") from error
                yield number, text if offset else text.removeprefix("\ufeff")
                offset += len(line)
    except (OSError, EOFError, zlib.error) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise ElmoError.at(path, number + 1, found=found, expected="a readable file") from error


def _pieces(file: BinaryIO | GzipFile, longest: int) -> Iterator[tuple[int, bytes]]:
    """The numbered lines, those of more than `longest` bytes in pieces."""
    number, rest = 1, b""
    while line := rest + file.readline(longest - len(rest)):
        cut = len(line)
        if len(line) == longest and not line.endswith(b"\n"):
            cut = max(line.rfind(b" "), line.rfind(b"\t")) + 1 or len(line) - 1
            while 0 < cut < len(line) and line[cut] & 0xC0 == 0x80:  # inside a character
                cut -= 1
        yield number, line[: cut or longest]
        rest = line[cut or longest :]
        number += line.endswith(b"\n")
