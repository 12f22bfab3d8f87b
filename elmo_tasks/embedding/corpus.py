"""
A text on disk, one tokenised sentence a line: read by number, so that memory does not grow with it, and what
happens to the file that it came from is of no concern.
"""

import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_tasks.progress import progress
from elmo_tasks.text_lines import TextError

MAX_TOKENS = 1 << 16
"""
Tokens of a line at most. Memory grows with them; a longer line is a text whose sentences were not split.
"""
_TEXT, _STARTS, _KEYS = "text", "starts", "keys"


class SourceLine(NamedTuple):
    where: str | PathLike[str]
    number: int
    """Of the line in its file, from 1."""
    text: str
    key: str | None = None
    """The name of the sentence, where it has one."""


class Corpus:
    """
    The lines of a text without the white space around them, on disk.

    `text[i]` is line i, from 0; to iterate is faster. Threads may share one.
    """

    tokens: int
    """Words between white space, of all lines."""
    digest: str
    """A hash that tells texts apart."""

    def __init__(self, *, folder: Path, tokens: int, digest: str) -> None:
        self.tokens = tokens
        self.digest = digest
        self._starts = np.memmap(folder / _STARTS, dtype=np.uint64, mode="r")
        self._text = folder / _TEXT
        self._keys = folder / _KEYS

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, line: int) -> str:
        line = range(len(self))[line]
        start, end = int(self._starts[line]), int(self._starts[line + 1])
        with open(self._text, "rb") as file:
            file.seek(start)
            return file.read(end - start)[:-1].decode()

    def __iter__(self) -> Iterator[str]:
        return self.lines()

    def lines(self, first: int = 0) -> Iterator[str]:
        """The lines from line `first` on."""
        with open(self._text, "rb") as file:
            file.seek(int(self._starts[first]))
            for line in file:
                yield line[:-1].decode()

    @property
    def has_keys(self) -> bool:
        """Whether its lines have names of their own."""
        return self._keys.stat().st_size > 0

    def keys(self) -> Iterator[str]:
        """The names of the lines; else their numbers, from 0."""
        if not self.has_keys:
            yield from map(str, range(len(self)))
            return
        with open(self._keys, encoding="utf-8", newline="\n") as file:
            for key in file:
                yield key.removesuffix("\n")


def write_corpus(lines: Iterable[SourceLine], folder: Path) -> Corpus:
    """
    The lines, written to `folder`. All have a key, or none has.

    # Raises
    `TextError`, with file and line: a line of more than `MAX_TOKENS` tokens, with a line break within it, or
    with what UTF-8 cannot write; and what reading them raises.
    """
    tokens = end = 0
    digest = blake2b(digest_size=16)
    with (
        open(folder / _TEXT, "wb") as text,
        open(folder / _STARTS, "wb") as starts,
        open(folder / _KEYS, "wb") as keys,
    ):
        starts.write(struct.pack("=Q", end))
        for where, number, line, key in progress(lines, work="reading", unit="lines"):
            sentence = line.strip()
            length = len(sentence.split())
            if length > MAX_TOKENS:
                found, expected = f"{length:,} tokens", f"a sentence of {MAX_TOKENS:,} at most"
                raise TextError.at(where, number, found=found, expected=expected)
            if "\n" in sentence:
                raise TextError.at(where, number, found="a line break within it", expected="one line")
            try:
                encoded = sentence.encode() + b"\n"
            except UnicodeEncodeError as error:
                found = f"{sentence[error.start]!a}, which is no character"
                raise TextError.at(where, number, found=found, expected="UTF-8") from error
            text.write(encoded)
            digest.update(encoded)
            if key is not None:
                keys.write(key.encode() + b"\n")
                digest.update(key.encode() + b"\n")
            tokens += length
            end += len(encoded)
            starts.write(struct.pack("=Q", end))
    return Corpus(folder=folder, tokens=tokens, digest=digest.hexdigest())
