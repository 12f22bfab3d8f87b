"""
A text on disk, one tokenised sentence a line: read by number, so that memory does not grow with it, and what
happens to the file that it came from is of no concern.

FASTA: proteins, one letter a residue. A record is a sentence whose words are its residues.

Sentences put together into windows and batches.
"""

import re
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from elmo_tasks.common.batches import batches
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.progress import progress
from elmo_tasks.elmo.inference import FrozenBiLm

# ==== embedding.corpus
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
    `ElmoError`, with file and line: a line of more than `MAX_TOKENS` tokens, with a line break within it, or
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
                raise ElmoError.at(where, number, found=found, expected=expected)
            if "\n" in sentence:
                raise ElmoError.at(where, number, found="a line break within it", expected="one line")
            try:
                encoded = sentence.encode() + b"\n"
            except UnicodeEncodeError as error:
                found = f"{sentence[error.start]!a}, which is no character"
                raise ElmoError.at(where, number, found=found, expected="UTF-8") from error
            text.write(encoded)
            digest.update(encoded)
            if key is not None:
                keys.write(key.encode() + b"\n")
                digest.update(key.encode() + b"\n")
            tokens += length
            end += len(encoded)
            starts.write(struct.pack("=Q", end))
    return Corpus(folder=folder, tokens=tokens, digest=digest.hexdigest())


# ==== embedding.fasta
END = "*"
"""Stands behind the last residue in some files, and is left out."""
_STRANGE = re.compile("[^A-Za-z]")


def read_fasta(lines: Iterable[SourceLine]) -> Iterator[SourceLine]:
    """
    The records of the lines of FASTA files: as text the residues in capitals with blanks between them, as key
    the first word of the header, as line that of the header.

    # Raises
    `ElmoError`, with file and line: residues without a header; a header without a name or residues, or with a
    name that was there before; something that is no letter.
    """
    places: dict[str, SourceLine] = {}
    header: SourceLine | None = None
    residues: list[str] = []
    for line in lines:
        text = "".join(line.text.split())
        if line.text.startswith(">"):
            if header is not None:
                yield _record(header, residues)
            header, residues = _header(line, places), []
        elif text:
            if header is None or header.where != line.where:
                raise _wrong(line, found=f"{text[:20]!r}", expected="a header first, as '>P12345'")
            if residues and residues[-1].endswith(END):
                raise _wrong(line, found=f"residues behind {END!r}", expected="a header")
            if strange := _STRANGE.search(text.removesuffix(END)):
                raise _wrong(line, found=repr(strange.group()), expected="letters, one a residue")
            residues.append(text.upper())
    if header is not None:
        yield _record(header, residues)


def _header(line: SourceLine, places: dict[str, SourceLine]) -> SourceLine:
    words = line.text[1:].split()
    if not words or not words[0].isprintable():
        raise _wrong(line, found=repr(line.text[:20]), expected="a name behind '>'")
    if (before := places.get(words[0])) is not None:
        there = (
            f"line {before.number}" if before.where == line.where else f"{before.where}, line {before.number}"
        )
        raise _wrong(line, found=f"{words[0]!r}, which stands in {there} too", expected="another name")
    places[words[0]] = line._replace(text="", key=words[0])
    return places[words[0]]


def _record(header: SourceLine, residues: list[str]) -> SourceLine:
    letters = "".join(residues).removesuffix(END)
    if not letters:
        raise _wrong(header, found=f"no residue of {header.key!r}", expected="letters, one a residue")
    return header._replace(text=" ".join(letters))


def _wrong(line: SourceLine, *, found: str, expected: str) -> ElmoError:
    return ElmoError.at(line.where, line.number, found=found, expected=expected)


# ==== embedding.sentences
class NumberedSentence(NamedTuple):
    number: int
    """The number of the line, or of the lane, that the sentence comes from."""
    words: list[str]


def windows(
    numbered: Iterable[NumberedSentence], *, sentences: int, tokens: int
) -> Iterator[list[NumberedSentence]]:
    """Neighbours together, in their order; a window ends when it has so many sentences, or so many tokens."""
    window: list[NumberedSentence] = []
    total = 0
    for sentence in numbered:
        window.append(sentence)
        total += len(sentence.words)
        if len(window) == sentences or total >= tokens:
            yield window
            window, total = [], 0
    if window:
        yield window


def batches_by_length(
    numbered: Iterable[NumberedSentence], tokens: int, *, sentences: int = sys.maxsize
) -> Iterator[list[NumberedSentence]]:
    """
    Sentences of similar length together, longest first, those without words left out.

    A batch has at most `tokens` positions, padding included, or one sentence that is longer; and at most so
    many `sentences`.
    """

    def length(sentence: NumberedSentence) -> int:
        return len(sentence.words)

    by_length = sorted(filter(length, numbered), key=length, reverse=True)
    for batch in batches(by_length, length, tokens):
        for first in range(0, len(batch), sentences):
            yield batch[first : first + sentences]


def padded_ids(sentences: Sequence[NumberedSentence], bilm: FrozenBiLm) -> torch.Tensor:
    """*Shape:* `(sentences, longest, *id)`: what `bilm` reads, on its device."""
    return bilm.padded_ids([sentence.words for sentence in sentences])
