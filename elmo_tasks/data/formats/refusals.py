"""Data that no reader reads, known by name: what they are, and what to do."""

import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from elmo_tasks.common.files import UNREADABLE, decompressed
from elmo_tasks.data.formats.roles import columns_of_plus
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.input_files import InputError

_HEAD = 1024
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_PDF, _EXCEL, _PICKLE = b"%PDF-", b"\xd0\xcf\x11\xe0", re.compile(rb"\x80[\x02-\x05]")
_POINTERS = re.compile(r"\S+ \d+ \d+ .*\d:\d+\S*-rel\b")
"""A line such as `nw/x.tree 0 4 gold run run.01 ----- 0:1-ARG0 4:0-rel`, also of NomBank."""
_BRAT = re.compile(r"T\d+\t\S+ \d+ \d+\t")
_PUBTATOR = re.compile(r"\d+\|t\|")
_PYTHON = re.compile(r"\w+ *= *\[|\[? *\( *[\"']")
_ENTITIES = re.compile("[\"']entities[\"']")
_INLINE = re.compile(r"<(ENAMEX|START:\w+|PER|LOC|ORG|PERSON|LOCATION|ORGANIZATION)\b[^>]*>")
_VECTOR = re.compile(r"\S+( -?\d+\.\d+(e-?\d+)?){10,}\s*")
_RASA = re.compile(r"- (intent|lookup|synonym|regex): ")
_RESIDUES = re.compile(r"[A-Za-z*.-]+\s*")
_MERGE = "up2/merge_ud_up.py of https://github.com/UniversalPropositions/tools"


class _Kind(NamedTuple):
    """A kind of data; `remedy` may name the `{path}`."""

    name: str
    fits: Callable[[Sample], object]
    remedy: str


def refusal(sample: Sample) -> InputError | None:
    """Returns the error that says what data are, if no reader reads their kind."""
    path = sample.files[0]
    if (kind := next((kind for kind in _KINDS if kind.fits(sample)), None)) is None:
        return None
    return InputError(
        f"this is {kind.name}", where=path, remedy=kind.remedy.format(path=shlex.quote(str(path)))
    )


def _head(sample: Sample) -> bytes:
    """Returns the first bytes; a mark of no kind of a file that cannot be read, which readers say."""
    with suppress(*UNREADABLE), open(sample.files[0], "rb") as packed:
        return decompressed(packed).read(_HEAD)
    return b"?"


def _is_binary(sample: Sample) -> bool:
    head = _head(sample)
    is_read = sample.is_parquet or sample.files[0].name.endswith(".spacy") or head.startswith(_UTF_16)
    return not is_read and (b"\0" in head or head.startswith(_PDF))


def _is_spacy2(sample: Sample) -> bool:
    paragraphs = sample.first_values.get("paragraphs")
    first = paragraphs[0] if isinstance(paragraphs, list) and paragraphs else None
    return isinstance(first, dict) and "sentences" in first


def _is_fasta(sample: Sample) -> bool:
    is_header = [line.startswith(">") for line in sample.lines]
    residues = [line for line, header in zip(sample.lines, is_header, strict=True) if not header]
    return is_header[:1] == [True] and bool(residues) and all(map(_RESIDUES.fullmatch, residues))


def _begins(sample: Sample, *marks: str) -> bool:
    return sample.first_row.lstrip("\ufeff \t").lower().startswith(marks)


def _is_xml(sample: Sample) -> bool:
    return _begins(sample, "<?xml") and not sample.files[0].name.removesuffix(".gz").endswith(".data.xml")


def _lacks_words(sample: Sample) -> bool:
    names = columns_of_plus(sample.lines[:1])
    return bool(names) and "FORM" not in names


def _has(sample: Sample, pattern: re.Pattern[str], *, share: float = 0.0) -> bool:
    """Tells whether more than a share of the lines have a pattern."""
    return sum(pattern.search(line) is not None for line in sample.lines) > share * len(sample.lines)


_KINDS = (
    _Kind("an empty file", lambda sample: len(sample.files) == 1 and not _head(sample).strip(), ""),
    _Kind("an Excel file", lambda sample: _head(sample).startswith(_EXCEL), "save it as csv"),
    _Kind(
        "a pickle of Python",
        lambda sample: _PICKLE.match(_head(sample)),
        "load it where it comes from, and write JSON Lines or Parquet",
    ),
    _Kind("a binary file, not a text", _is_binary, "export it as JSON Lines, csv or Parquet"),
    _Kind(
        "a page of HTML",
        lambda sample: _begins(sample, "<!doctype html", "<html"),
        "download the file that the page shows, on GitHub by Raw",
    ),
    _Kind("XML", _is_xml, "write its texts and labels as JSON Lines or csv, see docs/data.md"),
    _Kind(
        "a file of proteins (FASTA)",
        _is_fasta,
        "`allennlp elmo embed {path} OUT.hdf5 --format fasta` reads them, see docs/proteins.md",
    ),
    _Kind(
        "PropBank's pointers into trees of the Penn Treebank, without words",
        lambda sample: _POINTERS.match(sample.first_row),
        "make CoNLL files of it and the trees, as the scripts of the PropBank release do",
    ),
    _Kind(
        "CoNLL-U Plus without the column FORM, so without words",
        _lacks_words,
        f"merge it with its treebank; for Universal PropBank {_MERGE} does",
    ),
    _Kind(
        "skeletons of OntoNotes, without words",
        lambda sample: all(file.name.removesuffix(".gz").endswith("_skel") for file in sample.files),
        "join them with OntoNotes by the scripts of CoNLL-2012",
    ),
    _Kind(
        "brat's annotation without its text",
        lambda sample: len(sample.files) == 1 and _BRAT.match(sample.first_row),
        "put the .txt of the same name beside it",
    ),
    _Kind(
        "PubTator's format, whose entities have characters of title and abstract together",
        lambda sample: _PUBTATOR.match(sample.first_row),
        "convert it to BioC JSON or brat, or to tokens in columns",
    ),
    _Kind(
        "Python code, such as training data of spaCy",
        lambda sample: not sample.is_json and _PYTHON.match(sample.first_row) and _has(sample, _ENTITIES),
        "write the list by json.dump, which is read",
    ),
    _Kind(
        "a text with entities in tags between the words",
        lambda sample: not (sample.is_json or "\t" in sample.first_row) and _has(sample, _INLINE, share=0.3),
        "write a token a line with its tag, or texts with the offsets of entities as JSON Lines",
    ),
    _Kind(
        "word vectors",
        lambda sample: _has(sample, _VECTOR, share=0.9),
        "they are read where vectors are asked for, such as by `allennlp elmo intrinsic`, see docs/data.md",
    ),
    _Kind(
        "YAML of Rasa",
        lambda sample: _has(sample, _RASA) and any(line.startswith("nlu:") for line in sample.lines),
        "convert it: `rasa data convert nlu -f json` makes JSON, which is read",
    ),
    _Kind(
        "the training JSON of spaCy 2",
        _is_spacy2,
        "`python -m spacy convert {path} FOLDER` makes a .spacy file, which is read",
    ),
)
