"""FASTA: proteins, one letter a residue. A record is a sentence whose words are its residues."""

import re
from collections.abc import Iterable, Iterator

from elmo_tasks.embedding.corpus import SourceLine
from elmo_tasks.text_lines import TextError

END = "*"
"""Stands behind the last residue in some files, and is left out."""
_STRANGE = re.compile("[^A-Za-z]")


def read_fasta(lines: Iterable[SourceLine]) -> Iterator[SourceLine]:
    """
    The records of the lines of FASTA files: as text the residues in capitals with blanks between them, as key
    the first word of the header, as line that of the header.

    # Raises
    `TextError`, with file and line: residues without a header; a header without a name or residues, or with a
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


def _wrong(line: SourceLine, *, found: str, expected: str) -> TextError:
    return TextError.at(line.where, line.number, found=found, expected=expected)
