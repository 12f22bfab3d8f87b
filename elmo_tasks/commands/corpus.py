"""
The text that a verb reads: one tokenised sentence a line.

It is checked as a whole and copied to disk first. From there a line is read by its number, so that memory
does not grow with the text, and an input that changes or was a pipe is of no concern.
"""

import os
import shutil
import struct
import sys
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import numpy as np
from allennlp.common.tqdm import Tqdm

from elmo_tasks.data.input_files import InputError, input_files, read_lines

MAX_TOKENS = 1 << 16
"""
Tokens of a line at most. Memory grows with them; a longer line is a text whose sentences were not split.
"""


class Corpus:
    """
    The lines of a text without the white space around them, on disk.

    `text[i]` is line i, from 0; to iterate is faster. A context manager: it keeps a file open.
    """

    tokens: int
    """Words between white space, of all lines."""
    digest: str
    """A hash that tells texts apart."""

    def __init__(self, *, folder: Path, tokens: int, digest: str) -> None:
        self.tokens = tokens
        self.digest = digest
        self._starts = np.memmap(folder / "starts", dtype=np.uint64, mode="r")
        self._file = open(folder / "text", "rb", buffering=0)  # noqa: SIM115  closed by __exit__

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, line: int) -> str:
        line = range(len(self))[line]
        start, end = int(self._starts[line]), int(self._starts[line + 1])
        return os.pread(self._file.fileno(), end - start, start)[:-1].decode()

    def __iter__(self) -> Iterator[str]:
        return self.lines()

    def lines(self, first: int = 0) -> Iterator[str]:
        """The lines from line `first` on."""
        with open(self._file.name, "rb") as file:
            file.seek(int(self._starts[first]))
            for line in file:
                yield line[:-1].decode()

    def __enter__(self) -> "Corpus":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def copy_corpus(source: str, folder: Path, *, skip_empty: bool = False, limit: int | None = None) -> Corpus:
    """
    The text of `source`, copied to `folder`.

    # Parameters

    source : what `input_files` takes, gzip or not, or `-` for standard input.
    skip_empty : leave out lines of white space only.
    limit : how many lines to read at most; `None` for all.

    # Raises
    `InputError`, with file and line: nothing to read, a byte that is not UTF-8, a line of more than
    `MAX_TOKENS` tokens.
    """
    tokens = end = 0
    digest = blake2b(digest_size=16)
    with open(folder / "text", "wb") as text, open(folder / "starts", "wb") as starts:
        starts.write(struct.pack("=Q", end))
        sentences = islice(_sentences(source, folder, skip_empty), limit)
        for sentence, length in Tqdm.tqdm(sentences, desc="reading", unit=" lines", delay=2, leave=False):
            encoded = sentence.encode() + b"\n"
            text.write(encoded)
            digest.update(encoded)
            tokens += length
            end += len(encoded)
            starts.write(struct.pack("=Q", end))
    return Corpus(folder=folder, tokens=tokens, digest=digest.hexdigest())


def _sentences(source: str, folder: Path, skip_empty: bool) -> Iterator[tuple[str, int]]:
    """The stripped lines, and how many tokens they have."""
    for where, number, line in _lines(source, folder):
        sentence = line.strip()
        length = len(sentence.split())
        if length > MAX_TOKENS:
            found, expected = f"{length:,} tokens", f"a sentence of {MAX_TOKENS:,} at most"
            raise InputError.at(where, number, found=found, expected=expected)
        if sentence or not skip_empty:
            yield sentence, length


def _lines(source: str, folder: Path) -> Iterator[tuple[str | Path, int, str]]:
    if source != "-":
        for file in input_files(source):
            for number, line in read_lines(file):
                yield file, number, line
        return
    name, copy = "standard input", folder / "stdin"
    with open(copy, "wb") as target:
        shutil.copyfileobj(sys.stdin.buffer, target)
    try:
        for number, line in read_lines(copy):
            yield name, number, line
    except InputError as error:
        raise InputError(error.message.replace(str(copy), name)) from error
    finally:
        copy.unlink()
