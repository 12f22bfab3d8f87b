"""The lines of an input, which is read once: a file or a pipe, such as standard input, plain or packed."""

import os
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Iterator
from io import BufferedReader, BytesIO
from typing import BinaryIO

from elmo_tasks.common.files import STDIN, decompressed
from elmo_tasks.common.progress import input_progress

_BLOCK = 1 << 16
"""Bytes that are read from a pipe at a time, if they have arrived."""


class InputLines:
    """
    The lines of a file or a pipe, plain or packed, in order, without LF and a byte order mark. The lines of a
    pipe are read as they arrive. An error of reading, one of `UNREADABLE`, comes after the lines before it.
    """

    def __init__(self, file: BufferedReader, name: str) -> None:
        self.name = STDIN if name == "-" else name
        self.number = 0
        """The number of the last line, from 1."""
        self.offset = 0
        """The bytes up to the end of the last line, unpacked."""
        self.size = file.seek(0, os.SEEK_END) if file.seekable() else None
        """The bytes of the file, packed; `None` for a pipe."""
        if self.size is not None:
            file.seek(0)
        self._file, self._unpacked = file, decompressed(file)
        self._arrived: deque[bytes] = deque()

    def __iter__(self) -> Iterator[bytes]:
        for line in self._unpacked if self.size is not None else self._of_pipe(self._unpacked):
            self.number += 1
            self.offset += len(line)
            yield (line.removeprefix(BOM_UTF8) if self.number == 1 else line).removesuffix(b"\n")

    @property
    def position(self) -> int:
        """How far the input was read: in bytes, packed, of a file; in lines of a pipe."""
        return self.number if self.size is None else self._file.tell()

    def seek(self, offset: int, number: int) -> None:
        """Goes to the end of line `number` of a file, at the byte `offset`, unpacked."""
        self._unpacked.seek(offset)
        self.offset, self.number = offset, number

    def with_bar(self, work: str) -> Iterator[bytes]:
        """Yields the lines, with a bar."""
        with input_progress(work, self.size) as bar:
            for line in self:
                yield line
                bar.update(self.position - bar.n)

    def waits(self) -> bool:
        """Returns whether the next line of a pipe that is not blank has yet to arrive."""
        return self.size is None and not any(map(bytes.strip, self._arrived))

    def _of_pipe(self, file: BinaryIO) -> Iterator[bytes]:
        rest = b""
        # It waits only for the first byte.
        while block := file.read1(_BLOCK):  # type: ignore[attr-defined]
            self._arrived.extend(BytesIO(rest + block))
            rest = b"" if self._arrived[-1].endswith(b"\n") else self._arrived.pop()
            while self._arrived:
                yield self._arrived.popleft()
        if rest:
            yield rest
