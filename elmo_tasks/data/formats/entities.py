"""
Sentences with entities: `columns`, `conll2012`, `conllu`, `json`, `parquet`, `csv`, `wikiner`, `lines`,
`atis`, `brat` and `spacy`. `docs/data.md` shows a file of each format. `predicates` are those of files with
roles, see `roles`, as entities.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_tasks.common.errors import errors_as
from elmo_tasks.data.formats import Fit, Format, best_format, roles
from elmo_tasks.data.formats.annotations import FORMATS as ANNOTATIONS
from elmo_tasks.data.formats.cells import fit_cells, read_cells, words_and_tags
from elmo_tasks.data.formats.columns import FORMATS as COLUMNS
from elmo_tasks.data.formats.columns import (
    TAG_OR_O,
    EntityOptions,
    EntitySentence,
    sentence_of,
    split_cells,
)
from elmo_tasks.data.formats.delimited import read_delimited
from elmo_tasks.data.formats.profile import read_table
from elmo_tasks.data.formats.sample import Sample, sample_of_files
from elmo_tasks.data.input_files import (
    InputError,
    NoWordsError,
    Record,
    check_found,
    counterpart,
    first_lines,
    main_files,
    nonblank_lines,
    read_lines,
    read_side_by_side,
    shorten,
    value_or_error,
)
from elmo_tasks.data.tag_schemes import Span
from elmo_tasks.data.tokenization import Words

if TYPE_CHECKING:
    from spacy.tokens import Span as SpacySpan

Sentences = Iterator[EntitySentence | InputError]
_TAGGED = re.compile(r"(\S+)(?:\|[^|\s]+\||[:/])(O|[A-Z]-[^\s:|/]+)")
"""A word with its tag, in WikiNER with its part of speech between."""
_CLASS_OF_LINE = " <=> "
"""The mark before the class of a line with tags, which is not read."""
_TAGS_OF_LINE = re.compile(rf"\s*((?:{TAG_OR_O.pattern})(\s+|$))*")
_LINES = 20
_CSV = [
    re.compile(pattern)
    for pattern in (
        "sent(ence)?(s|id|idx|index|no|nr|num|number)?",
        "(word|token)s?",
        "(ner?|iob2?|bio|entity)?(tag|label)s?|ner",
    )
]
"""The names of the columns of the sentence, of the word and of the tag, in small letters without marks."""
_IN, _OUT, _INTENTS = "seq.in", "seq.out", "label"
_TAG_FILES = {_IN: (_OUT,), "words": ("tags",), "tokens": ("tags", "labels"), "sentences": ("tags", "labels")}
"""The words in the names of files with the tags of each line, by that of the file with its words."""
_TEXT_OF_BRAT, _ANNOTATIONS = "txt", "ann"
_BRAT_ENTITY = re.compile(r"T\d+\t(\S+) (\d+) (\d+)\t(.*)")
COMPANIONS = {**_TAG_FILES, _IN: (_OUT, _INTENTS), _TEXT_OF_BRAT: (_ANNOTATIONS,)}
"""The files that are read with the words, see `main_files`: tags, ATIS' intents, brat's entities."""


# Tables and lines


def _read_csv(path: Path, options: EntityOptions) -> Sentences:
    """Reads a row a token; the id of the sentence is in each row, or in the first of each sentence."""

    def numbered() -> Iterator[tuple[int, Record]]:
        sentence, number = "", 0
        for record in read_delimited(path, encoding=options.encoding):
            cells = record.make(_csv_cells)
            if not isinstance(cells, InputError) and cells[0] not in ("", sentence):
                sentence, number = cells[0], number + 1
            yield number, record

    def make(rows: list[tuple[int, Record]]) -> EntitySentence:
        cells = [_csv_cells(record.values) for _, record in rows]
        lines = [record.line for _, record in rows]
        return sentence_of([word for _, word, _ in cells], lines, [tag for *_, tag in cells])

    for _, rows in groupby(numbered(), key=lambda row: row[0]):
        yield value_or_error(path, None, make, list(rows))


def _csv_cells(record: dict[str, Any]) -> list[Any]:
    columns = _csv_columns(tuple(record))
    check_found(None not in columns, "columns such as sentence, word and tag", "")
    return [record[column] for column in columns if column is not None]


@lru_cache(maxsize=16)
def _csv_columns(names: tuple[str, ...]) -> list[str | None]:
    plain = {re.sub(r"[\W_]", "", name.lower()): name for name in names}
    return [next((plain[name] for name in plain if each.fullmatch(name)), None) for each in _CSV]


def columns_by_name(sample: Sample, format: str) -> list[str]:
    """Returns the columns of the words and of the tags, which a format of tables finds by itself."""
    table = read_table(sample) if format in ("csv", "cells") else None
    if table is None:
        return []
    return (
        [*filter(None, _csv_columns(tuple(table.columns))[1:])]
        if format == "csv"
        else [*(words_and_tags(table) or ())]
    )


def _fit_csv(sample: Sample) -> Fit:
    return Fit.NO if None in _csv_columns(tuple(sample.first_cells)) else Fit.CERTAIN


def _read_tagged_lines(path: Path, options: EntityOptions) -> Sentences:
    """Reads a sentence a line: words with their tags, or all words, a tab and all tags."""

    def make(line_number: int, line: str) -> EntitySentence:
        words, tags = _words_and_tags(line)
        return sentence_of(words, [line_number] * len(words), tags)

    for line_number, line in nonblank_lines(path, options.encoding):
        yield value_or_error(path, line_number, make, line_number, line)


def _words_and_tags(line: str) -> tuple[list[str], list[str]]:
    text, tab, tags_of_line = line.partition("\t")
    if tab:
        words, tags = text.split(), tags_of_line.split()
        if words[-1:] == ["EOS"]:  # of ATIS, whose last tag is the class of the line
            start = words[0] == "BOS"
            words, tags = words[start:-1], tags[start : len(words) - 1]
        if len(words) == len(tags) and all(map(TAG_OR_O.fullmatch, tags)):
            return words, tags
        raise InputError(f"{shorten(line)!r} is not words, a tab, and a tag for each word")
    cells = [(cell, _TAGGED.fullmatch(cell)) for cell in split_cells(line.partition(_CLASS_OF_LINE)[0], None)]
    if wrong := [cell for cell, match in cells if match is None]:
        raise InputError(f"{wrong[0]!r} is not a word with its tag, such as word|pos|tag or word:tag")
    return [match[1] for _, match in cells if match], [match[2] for _, match in cells if match]


def _fit_tagged_lines(sample: Sample, *, wikiner: bool) -> Fit:
    row = sample.first_row
    if wikiner is not ("|" in row and "\t" not in row):
        return Fit.NO
    with suppress(InputError):
        return Fit.CERTAIN if len(_words_and_tags(row)[0]) > 1 - wikiner else Fit.NO
    return Fit.NO


def _read_atis(path: Path, options: EntityOptions) -> Sentences:
    tag_file = _tag_file(path)
    lines: Iterator[tuple[int, str, str]]
    if tag_file is None:
        lines = ((line_number, line, "") for line_number, line in read_lines(path, encoding=options.encoding))
    else:
        lines = read_side_by_side(path, tag_file, options.encoding)
    for line_number, line, tags_of_line in lines:
        words, tags = line.split(), tags_of_line.split() if tag_file else None
        if tags is not None and len(tags) != len(words):
            problem = f"the line has {len(tags)} tags for the {len(words)} words in {path}"
            yield InputError(problem, where=tag_file or path, line=line_number)
        elif words:
            yield EntitySentence(words, [line_number] * len(words), tags)


def _tag_file(path: Path) -> Path | None:
    names = ((words, tags) for words, others in _TAG_FILES.items() for tags in others)
    return next((file for words, tags in names if (file := counterpart(path, words, tags))), None)


def _fit_atis(sample: Sample) -> Fit:
    (path,) = main_files(sample.files[:1], COMPANIONS)
    if path.name.endswith(_IN):
        return Fit.CERTAIN
    tags = _tag_file(path)
    lines = first_lines(tags, _LINES, sample.encoding) if tags else []
    return Fit.CERTAIN if lines and all(map(_TAGS_OF_LINE.fullmatch, lines)) else Fit.NO


def _read_brat(path: Path, options: EntityOptions) -> Sentences:
    """Reads each line of a text as a sentence, with the entities of its `.ann` file."""
    path, annotations = path.with_suffix(f".{_TEXT_OF_BRAT}"), path.with_suffix(f".{_ANNOTATIONS}")
    spans: list[tuple[Span, str]] = []
    for line_number, line in nonblank_lines(annotations, options.encoding):
        if match := _BRAT_ENTITY.match(line):
            spans.append((Span(int(match[2]), int(match[3]), match[1]), match[4]))
        elif line.startswith("T"):
            problem = f"{shorten(line)!r} is not an entity in one part, such as T1, PER 0 4 and Vera"
            yield InputError(problem, where=annotations, line=line_number)
    start = 0
    for line_number, line in read_lines(path, encoding=options.encoding):
        inside = [(Span(a - start, b - start, x), text) for (a, b, x), text in spans if a < start + len(line)]
        spans = [each for each in spans if each[0].start >= start + len(line)]
        content = options.split(line)
        if wrong := [text for span, text in inside if line[max(span.start, 0) : span.end] != text]:
            problem = f"the entity {wrong[0]!r} is not at its characters, or not in one line"
            yield InputError(problem, where=path, line=line_number)
        elif content.words:
            lines = [line_number] * len(content.words)
            characters = [span for span, _ in inside]
            yield EntitySentence(content.words, lines, characters=characters, text=content)
        start += len(line) + 1
    if spans:
        yield InputError(f"the entity {spans[0][1]!r} begins after the text", where=annotations)


def _fit_brat(sample: Sample) -> Fit:
    (path,) = main_files(sample.files[:1], COMPANIONS)
    return Fit.CERTAIN if counterpart(path, _TEXT_OF_BRAT, _ANNOTATIONS) else Fit.NO


# spaCy


def _read_spacy(path: Path, options: EntityOptions) -> Sentences:
    """Reads each sentence of each document, or the whole document if its sentences are not marked."""
    import spacy
    from spacy.tokens import DocBin

    def make(doc_number: int, part: "SpacySpan") -> EntitySentence:
        tokens = [token for token in part if not token.is_space]
        if not tokens:
            raise NoWordsError("the sentence has no words")
        start, words = part.start_char, [token.text for token in tokens]
        offsets = [(token.idx - start, token.idx - start + len(token)) for token in tokens]
        entities = [Span(each.start_char - start, each.end_char - start, each.label_) for each in part.ents]
        entities = [each for each in entities if part.text[each.start : each.end].strip()]
        lines, text = [doc_number] * len(words), Words(part.text, words, offsets)
        return EntitySentence(words, lines, characters=entities if tagged else None, text=text)

    # zlib, msgpack and spaCy raise their own classes.
    with errors_as(InputError, "spaCy cannot read it as a DocBin", where=path):
        docs = list(DocBin().from_disk(path).get_docs(spacy.blank("xx").vocab))
    tagged = any(doc.has_annotation("ENT_IOB") for doc in docs)
    for doc_number, doc in enumerate(docs, start=1):
        for part in doc.sents if doc.has_annotation("SENT_START") else [doc[:]]:
            yield value_or_error(path, doc_number, make, doc_number, part)


def _fit_spacy(sample: Sample) -> Fit:
    return Fit.CERTAIN if sample.files[0].name.endswith(".spacy") else Fit.NO


def _read_predicates(path: Path, options: EntityOptions) -> Sentences:
    """Reads a file with roles; each of its predicates is an entity of one word."""
    format = best_format(roles.FORMATS, sample_of_files([path], options.encoding))
    for sentence in format.read(path, roles.RoleOptions(encoding=options.encoding)):
        if isinstance(sentence, InputError):
            yield sentence
            continue
        spans = [Span(each.index, each.index + 1, roles.PREDICATE) for each in sentence.predicates]
        marked = spans if sentence.marked else None
        yield EntitySentence(sentence.words, sentence.lines, spans=marked, ids=sentence.ids)


FORMATS = (
    *COLUMNS,
    *ANNOTATIONS,
    Format("cells", fit_cells, read_cells),
    Format("csv", _fit_csv, _read_csv),
    Format("wikiner", partial(_fit_tagged_lines, wikiner=True), _read_tagged_lines),
    Format("lines", partial(_fit_tagged_lines, wikiner=False), _read_tagged_lines),
    Format("atis", _fit_atis, _read_atis),
    Format("brat", _fit_brat, _read_brat),
    Format("spacy", _fit_spacy, _read_spacy),
    Format("predicates", lambda sample: Fit.NO, _read_predicates),
)
