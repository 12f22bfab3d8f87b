"""Data that no reader reads, known by name: what they are, and what to do."""

import re
import shlex
from contextlib import suppress
from typing import NamedTuple

from elmo_tasks.common.files import UNREADABLE, decompressed
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.input_files import InputError

_HEAD = 4096
_MERGE = "up2/merge_ud_up.py of https://github.com/UniversalPropositions/tools"
_WRITE = "write its texts and labels as JSON Lines or csv, see docs/data.md"


class _Kind(NamedTuple):
    """A kind of data, with the pattern of its first bytes; `remedy` may name the `{path}`."""

    name: str
    head: str
    remedy: str
    file_name: str = ""
    """The pattern of the names of such files."""
    alone: bool = False
    """Whether it is of use together with other files."""


_KINDS = (
    _Kind("an empty file", r"\s*\Z", "", alone=True),
    _Kind("an Excel file", "\xd0\xcf\x11\xe0", "save it as csv"),
    _Kind(
        "a pickle of Python",
        r"\x80[\x02-\x05]",
        "load it where it comes from, and write JSON Lines or Parquet",
    ),
    _Kind(
        "a binary file, not a text",
        "(?!PAR1|\xff\xfe|\xfe\xff)(%PDF-|[^\\0]*\\0)",
        "export it as JSON Lines, csv or Parquet",
        r"(?!.*\.spacy)",
    ),
    _Kind(
        "a page of HTML",
        r"(?i)\s*<(!doctype html|html)",
        "download the file that the page shows, on GitHub by Raw",
    ),
    _Kind("XML", r"\s*<\?xml", _WRITE, r"(?!.*\.data\.xml)"),
    _Kind(
        "a file of proteins (FASTA)",
        r">.*\n([A-Za-z*.-]+[ \t]*\n)+(\s*\Z|\s*>)",
        "`allennlp elmo embed {path} OUT.hdf5 --format fasta` reads them, see docs/proteins.md",
    ),
    _Kind(
        "PropBank's pointers into trees of the Penn Treebank, without words",
        r"\S+ \d+ \d+ .*\d:\d+\S*-rel\b",  # also of NomBank
        "make CoNLL files of it and the trees, as the scripts of the PropBank release do",
    ),
    _Kind(
        "CoNLL-U Plus without the column FORM, so without words",
        r"# global\.columns = (?!.*\bFORM\b)",
        f"merge it with its treebank; for Universal PropBank {_MERGE} does",
    ),
    _Kind(
        "skeletons of OntoNotes, without words",
        "",
        "join them with OntoNotes by the scripts of CoNLL-2012",
        r".*_skel(\.gz)?$",
    ),
    _Kind(
        "brat's annotation without its text",
        r"T\d+\t\S+ \d+ \d+\t",
        "put the .txt of the same name beside it",
        alone=True,
    ),
    _Kind(
        "PubTator's format, whose entities have characters of title and abstract together",
        r"\d+\|t\|",
        "convert it to BioC JSON or brat, or to tokens in columns",
    ),
    _Kind(
        "Python code, such as training data of spaCy",
        r"(?s)(\w+ *= *\[|\[? *\( *[\"']).*[\"']entities[\"']",
        "write the list by json.dump, which is read",
    ),
    _Kind(
        "a text with entities in tags between the words",
        r"[^{\[\t\n]*<(ENAMEX|START:\w+|PER|LOC|ORG|PERSON|LOCATION|ORGANIZATION)\b[^>]*>.*<(/\1|END)",
        "write a token a line with its tag, or texts with the offsets of entities as JSON Lines",
    ),
    _Kind(
        "Label Studio's JSON with choices in place of entities",
        r'(?s)(?!.*"start":)\s*[\[{].*"result":\s*\[.*"choices"',
        "export JSON-MIN or CSV, which `allennlp elmo classify` reads",
    ),
    _Kind("ARFF of Weka", r"(?i)(\s|%.*\n)*@relation", "save it as csv"),
    _Kind(
        "trees of the Penn Treebank, without the labels of sentiment",
        r"\s*\( ?\((S|ROOT|TOP|NP|FRAG|SINV|SQ|SBARQ)\b",
        "no task here reads parses",
    ),
    _Kind(
        "word vectors",
        r"(.*\n)?(\S+( -?\d+\.\d+(e-?\d+)?){10,}\s*\n)+",
        "they are read where vectors are asked for, such as by `allennlp elmo intrinsic`, see docs/data.md",
    ),
    _Kind(
        "YAML of Rasa",
        r"(?s).*^nlu:.*^\s*- (intent|lookup|synonym|regex): ",
        "convert it: `rasa data convert nlu -f json` makes JSON, which is read",
    ),
    _Kind(
        "the training JSON of spaCy 2",
        r'(?s)\s*[\[{].*"paragraphs":.*"sentences":\s*\[\s*\{\s*"tokens"',
        "`python -m spacy convert {path} FOLDER` makes a .spacy file, which is read",
    ),
)


def refusal(sample: Sample) -> InputError | None:
    """Returns the error that says what data are, if no reader reads their kind."""
    path, head = sample.files[0], _head(sample)
    for kind in _KINDS:
        is_possible = not kind.alone or len(sample.files) == 1
        if is_possible and re.match(kind.file_name, path.name) and re.match(kind.head, head, re.MULTILINE):
            remedy = kind.remedy.format(path=shlex.quote(str(path)))
            return InputError(f"this is {kind.name}", where=path, remedy=remedy)
    return None


def _head(sample: Sample) -> str:
    """Returns the first bytes; a mark of no kind of a file that cannot be read, which readers say."""
    with suppress(*UNREADABLE), open(sample.files[0], "rb") as packed:
        return decompressed(packed).read(_HEAD).decode("latin-1").removeprefix("\xef\xbb\xbf")
    return "?"
