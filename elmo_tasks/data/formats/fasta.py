"""FASTA files: the residues of a protein are the tokens of a sentence."""

import re
from collections.abc import Iterable, Iterator

from elmo_tasks.data.input_files import InputError
from elmo_tasks.embedding.corpus import SourceLine

STOP = "*"
"""The stop character after the last residue in some files. It is left out."""
_NO_RESIDUE = re.compile("[^A-Za-z]")


def read_fasta(lines: Iterable[SourceLine]) -> Iterator[SourceLine]:
    """
    Yields the records of FASTA files: as text the residues in capitals with blanks between them, as key the
    first word of the header, as line the header's. The names must differ, and none may be a folder of another
    one in HDF5, as `a` of `a/b`. Anything else is an `InputError`, with file and line.
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
                raise _wrong(line, f"{text[:20]!r} is not a header, such as '>P12345'")
            if residues and residues[-1].endswith(STOP):
                raise _wrong(line, f"residues follow the end {STOP!r} of a protein")
            if other := _NO_RESIDUE.search(text.removesuffix(STOP)):
                raise _wrong(line, f"{other.group()!r} is not a residue, which is a letter")
            residues.append(text.upper())
    if header is not None:
        yield _record(header, residues)


def _header(line: SourceLine, headers: dict[str, SourceLine]) -> SourceLine:
    words = line.text[1:].split()
    if not words or not words[0].isprintable() or not words[0].strip("/"):
        raise _wrong(line, f"{line.text[:20]!r} has no name after '>'")
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
        raise _wrong(line, f"the name {words[0]!r} is taken by {before.key!r} in {there}")
    header = line._replace(text="", key=words[0])
    headers |= {name: header} | {f"{folder}/": header for folder in folders}
    return header


def _record(header: SourceLine, residues: list[str]) -> SourceLine:
    letters = "".join(residues).removesuffix(STOP)
    if not letters:
        raise _wrong(header, f"{header.key!r} has no residues")
    return header._replace(text=" ".join(letters))


def _wrong(line: SourceLine, what: str) -> InputError:
    return InputError(what, where=line.where, line=line.line_number)
