"""FASTA files: the residues of a protein are the tokens of a sentence."""

import re
from collections.abc import Iterable, Iterator
from itertools import starmap
from typing import NamedTuple

from elmo_tasks.common.errors import FilePath
from elmo_tasks.data.input_files import InputError


class Protein(NamedTuple):
    """The file and the line of a header, the residues with blanks between them, and the name."""

    where: FilePath
    line_number: int
    text: str
    key: str = ""


STOP = "*"
"""The stop character after the last residue in some files. It is left out."""
_NO_RESIDUE = re.compile("[^A-Za-z]")


def read_fasta(lines: Iterable[tuple[FilePath, int, str]]) -> Iterator[Protein]:
    """
    Yields the proteins of FASTA files: the residues in capitals, and the first word of the header as name.
    Anything else is an `InputError`, with file and line.
    """
    header: Protein | None = None
    residues: list[str] = []
    for line in starmap(Protein, lines):
        text = "".join(line.text.split())
        if line.text.startswith(">"):
            if header is not None:
                yield _record(header, residues)
            header, residues = _header(line), []
        elif text:
            if header is None or header.where != line.where:
                raise _wrong(line, f"{text[:20]!r} is not a header, such as '>P12345'")
            # Only the last character of a protein may be `STOP`.
            before = residues[-1][-1] if residues else ""
            if other := _NO_RESIDUE.search(before + text.removesuffix(STOP)):
                raise _wrong(line, f"{other.group()!r} is not a residue, which is a letter")
            residues.append(text.upper())
    if header is not None:
        yield _record(header, residues)


def _header(line: Protein) -> Protein:
    words = line.text[1:].split()
    if not words or not words[0].isprintable():
        raise _wrong(line, f"{line.text[:20]!r} has no name after '>'")
    return line._replace(text="", key=words[0])


def _record(header: Protein, residues: list[str]) -> Protein:
    letters = "".join(residues).removesuffix(STOP)
    if not letters:
        raise _wrong(header, f"{header.key!r} has no residues")
    return header._replace(text=" ".join(letters))


def _wrong(line: Protein, what: str) -> InputError:
    return InputError(what, where=line.where, line=line.line_number)
