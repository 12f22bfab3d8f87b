"""
A text on disk, one tokenised sentence a line, so that memory does not grow with the text; and FASTA as such a
text.

`write_corpus` copies the lines of a text. From then on changes of the file that they came from do not matter.
"""

import re
import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import BinaryIO, NamedTuple

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.progress import progress

MAX_TOKENS = 1 << 16
"""The tokens of a line at most; a longer line is a text that was not split into sentences."""
TEXT, _STARTS, _KEYS = "text", "starts", "keys"
NUMBER = struct.Struct("=Q")


class SourceLine(NamedTuple):
    where: str | PathLike[str]
    line_number: int
    text: str
    key: str | None = None
    """The name of the sentence, if it has one."""


def number_at(file: BinaryIO, index: int) -> int:
    """Reads a number of a file of `NUMBER`s."""
    file.seek(index * NUMBER.size)
    return NUMBER.unpack(file.read(NUMBER.size))[0]


class Corpus:
    """
    The lines of a text, without the white space around them, in the files that `write_corpus` makes in a
    folder. `text[i]` is line i, from 0. Iterating is faster. Threads may share one.
    """

    tokens: int
    """The words between white space, of all lines."""
    digest: str

    def __init__(self, *, folder: Path, tokens: int, digest: str) -> None:
        self.tokens = tokens
        self.digest = digest
        self._starts = folder / _STARTS
        self._lines = self._starts.stat().st_size // NUMBER.size - 1
        self._text = folder / TEXT
        self._keys = folder / _KEYS

    def __len__(self) -> int:
        return self._lines

    def __getitem__(self, line: int) -> str:
        line = range(len(self))[line]
        # Opened for each line, since Windows removes no folder with a file that is open, or mapped.
        with open(self._starts, "rb") as starts, open(self._text, "rb") as file:
            start, end = number_at(starts, line), number_at(starts, line + 1)
            file.seek(start)
            return file.read(end - start)[:-1].decode()

    def __iter__(self) -> Iterator[str]:
        with open(self._text, "rb") as file:
            for line in file:
                yield line[:-1].decode()

    @property
    def has_keys(self) -> bool:
        """True if the lines have names of their own."""
        return self._keys.stat().st_size > 0

    def keys(self) -> Iterator[str]:
        """Yields the names of the lines or, if they have none, their numbers from 0."""
        if not self.has_keys:
            yield from map(str, range(len(self)))
            return
        with open(self._keys, encoding="utf-8", newline="\n") as file:
            for key in file:
                yield key.removesuffix("\n")


def write_corpus(lines: Iterable[SourceLine], folder: Path) -> Corpus:
    """
    Writes the lines to `folder`. Either all of them have a key, or none has.

    # Raises
    `ElmoError`, with file and line: a line of more than `MAX_TOKENS` tokens, with a line break within it, or
    with characters that UTF-8 cannot hold; and the errors of reading the lines.
    """
    tokens = end = 0
    digest = blake2b(digest_size=16)
    with (
        open(folder / TEXT, "wb") as text,
        open(folder / _STARTS, "wb") as starts,
        open(folder / _KEYS, "wb") as keys,
    ):
        starts.write(NUMBER.pack(end))
        for where, line_number, line, key in progress(lines, work="reading", unit="lines"):
            sentence = line.strip()
            length = len(sentence.split())
            if length > MAX_TOKENS:
                found, expected = f"{length:,} tokens", f"a sentence of {MAX_TOKENS:,} at most"
                raise ElmoError.at(where, line_number, found=found, expected=expected)
            if "\n" in sentence:
                raise ElmoError.at(where, line_number, found="a line break within it", expected="one line")
            try:
                encoded = sentence.encode() + b"\n"
            except UnicodeEncodeError as error:
                found = f"{sentence[error.start]!a}, which is no character"
                raise ElmoError.at(where, line_number, found=found, expected="UTF-8") from error
            text.write(encoded)
            digest.update(encoded)
            if key is not None:
                keys.write(key.encode() + b"\n")
                digest.update(key.encode() + b"\n")
            tokens += length
            end += len(encoded)
            starts.write(NUMBER.pack(end))
    return Corpus(folder=folder, tokens=tokens, digest=digest.hexdigest())


END = "*"
"""The stop character after the last residue in some files. It is left out."""
_NO_RESIDUE = re.compile("[^A-Za-z]")


def read_fasta(lines: Iterable[SourceLine]) -> Iterator[SourceLine]:
    """
    Yields the records of FASTA files: as text the residues in capitals with blanks between them, as key the
    first word of the header, as line the header's. The names must differ, and none may be a folder of another
    one in HDF5, as `a` of `a/b`; that, and all that is no FASTA, is an `ElmoError`, with file and line.
    """
    headers: dict[str, SourceLine] = {}
    header: SourceLine | None = None
    residues: list[str] = []
    for line in lines:
        text = "".join(line.text.split())
        if line.text.startswith(">"):
            if header is not None:
                yield _record(header, residues)
            header, residues = _header(line, headers), []
        elif text:
            if header is None or header.where != line.where:
                raise _wrong(line, found=f"{text[:20]!r}", expected="a header first, as '>P12345'")
            if residues and residues[-1].endswith(END):
                raise _wrong(line, found=f"residues after {END!r}", expected="a header")
            if other := _NO_RESIDUE.search(text.removesuffix(END)):
                raise _wrong(line, found=repr(other.group()), expected="letters, one a residue")
            residues.append(text.upper())
    if header is not None:
        yield _record(header, residues)


def _header(line: SourceLine, headers: dict[str, SourceLine]) -> SourceLine:
    words = line.text[1:].split()
    if not words or not words[0].isprintable() or not words[0].strip("/"):
        raise _wrong(line, found=repr(line.text[:20]), expected="a name after '>'")
    # HDF5 reads a name with slashes as a path.
    parts = [part for part in words[0].split("/") if part]
    folders = ["/".join(parts[:size]) for size in range(1, len(parts))]
    name = "/".join(parts)
    before = next((headers[each] for each in (name, f"{name}/", *folders) if each in headers), None)
    if before is not None:
        there = (
            f"line {before.line_number}"
            if before.where == line.where
            else f"{before.where}, line {before.line_number}"
        )
        other = "which is also" if before.key == words[0] else f"beside {before.key!r}"
        raise _wrong(line, found=f"{words[0]!r}, {other} in {there}", expected="another name")
    header = line._replace(text="", key=words[0])
    headers |= {name: header} | {f"{folder}/": header for folder in folders}
    return header


def _record(header: SourceLine, residues: list[str]) -> SourceLine:
    letters = "".join(residues).removesuffix(END)
    if not letters:
        raise _wrong(header, found=f"no residue of {header.key!r}", expected="letters, one a residue")
    return header._replace(text=" ".join(letters))


def _wrong(line: SourceLine, *, found: str, expected: str) -> ElmoError:
    return ElmoError.at(line.where, line.line_number, found=found, expected=expected)
