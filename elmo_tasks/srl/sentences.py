"""
Sentences with their predicates and arguments, from files.

Columns, one word a line, an empty line between sentences: those of CoNLL 2012 (OntoNotes,
https://conll.cemantix.org/2012/data.html), where lines that begin with `#begin document` and `#end
document` are no words, or others by name. There is one column of arguments for each predicate, in their
order, with `(LABEL*` where an argument starts, `*)` where it ends, `(LABEL*)` for one of a single word, and
`*` elsewhere. `/.` and `/?`, as OntoNotes writes some ends of sentences, are read as `.` and `?`.

JSON Lines, one sentence a line: `{"tokens": ["Ana", "flew", "to", "Lisbon"], "predicates": [{"index": 1,
"arguments": [{"label": "ARG0", "spans": [[0, 1]]}, {"label": "ARG4", "spans": [[2, 4]]}]}]}`. Spans are
half-open; an argument in parts has several. The predicate's own span has the label V; so has the word at
`index` if it is in no span. `pos`, the parts of speech, may be there; other keys are ignored, so that what
the predictor writes can be read.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from elmo_tasks.data.columns import BLANKS, ColumnLayout, line_groups, unescaped
from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.data.json_lines import read_json_lines, shorten_json
from elmo_tasks.data.tag_schemes import Scheme, Span, from_spans
from elmo_tasks.srl.arguments import PREDICATE, Argument, to_tags

WORD, LEMMA, FRAMESET, POS, ARGUMENTS = "word", "predicate", "frameset", "pos", "arguments"
CONLL_2012 = (
    "document",
    "part",
    "number",
    WORD,
    POS,
    "parse",
    LEMMA,
    FRAMESET,
    "sense",
    "speaker",
    "entity",
    ARGUMENTS,
    "coreference",
)
_DOCUMENT = ("#begin document", "#end document")
_JSON_OBJECT = re.compile(r'[ \t]*\{[ \t]*"')
_NONE = "-"
_CELL = re.compile(r"(?:\(([^()*]+))?\*(?:([^()*]*)(\)))?")


@dataclass
class Proposition:
    """A predicate, by its index among the words, and the IOB2 tags of its arguments and itself."""

    predicate: int
    tags: list[str]
    pos: str | None
    """The predicate's part of speech, where it is known."""


@dataclass
class SrlSentence:
    """The words of a sentence, and a proposition for each of its predicates."""

    words: list[str]
    propositions: list[Proposition]
    line: int
    """Of the file: the first of its columns, or that of its JSON object."""


class _Row(NamedTuple):
    """The cells of a word, and the number of its line in the file."""

    line: int
    cells: list[str]


class Columns(ColumnLayout):
    """
    # Parameters

    names : of the columns in order: `word`, `predicate` (`-` for a word that is none) and `arguments` (any
        number of columns) once each. Where there is `frameset`, a word with `-` there is no predicate
        either; `pos` is the part of speech. All others are ignored.
    delimiter : what separates the columns; `None` for any run of blanks and tabs.

    # Raises
    `ConfigurationError`: impossible columns or delimiter.
    """

    def __init__(self, names: Sequence[str], delimiter: str | None) -> None:
        super().__init__(names, delimiter, needed=(WORD, LEMMA, ARGUMENTS))
        self._first_of_arguments = self.names.index(ARGUMENTS)

    def cell(self, name: str, row: _Row) -> str:
        """The cell of a row in the column of this name, which is not that of the arguments."""
        column = self.names.index(name)
        return row.cells[column if column < self._first_of_arguments else column - len(self.names)]

    def argument_columns(self, row: _Row) -> range:
        """The columns of arguments, as many as the row has cells for."""
        columns_behind = len(self.names) - self._first_of_arguments - 1
        return range(self._first_of_arguments, len(row.cells) - columns_behind)

    def row(self, path: Path, number: int, line: str, first: _Row | None) -> _Row:
        """The row of a line, which must have as many columns as the first of its sentence."""
        cells = self.split(line)
        if first is None and len(cells) < len(self.names) - 1:
            expected = f"{len(self.names) - 1} or more: {', '.join(self.names)}"
        elif first is not None and len(cells) != len(first.cells):
            expected = f"{len(first.cells)} as in line {first.line}"
        else:
            return _Row(number, cells)
        raise InputError.at(path, number, found=f"{len(cells)} columns in {line[:80]!r}", expected=expected)


def read_sentences(path: Path, columns: Columns) -> Iterator[SrlSentence]:
    """
    The sentences of a file; it is JSON Lines if the first line that is not blank starts with `{` and `"`.

    # Raises
    `InputError` with file and line: what `SrlReader` says.
    """
    lines = read_lines(path)
    for number, line in lines:
        if line.strip(BLANKS):
            rest = chain([(number, line)], lines)
            yield from _json_lines(path, rest) if _JSON_OBJECT.match(line) else _columns(path, rest, columns)


def _columns(path: Path, lines: Iterator[tuple[int, str]], columns: Columns) -> Iterator[SrlSentence]:
    for group in line_groups(lines, separators=_DOCUMENT):
        rows: list[_Row] = []
        for number, line in group:
            rows.append(columns.row(path, number, line, rows[0] if rows else None))
        yield _sentence(path, rows, columns)


def _sentence(path: Path, rows: list[_Row], columns: Columns) -> SrlSentence:
    words = [unescaped(columns.cell(WORD, row)) for row in rows]
    for word, row in zip(words, rows, strict=True):
        if not word:
            raise InputError.at(path, row.line, found="an empty word", expected="a word")
    spans = [_spans(path, rows, column) for column in columns.argument_columns(rows[0])]
    marked = _marked(rows, columns)
    if spans == [[]] and not (marked and FRAMESET in columns.names):
        # How some write a sentence without predicates; a lemma may stand beside words that are none
        spans = []
    predicates = _predicates(path, rows, spans, marked)
    return SrlSentence(
        words,
        [
            Proposition(
                predicate,
                from_spans(of_predicate, len(words), Scheme.IOB2),
                columns.cell(POS, rows[predicate]) if POS in columns.names else None,
            )
            for predicate, of_predicate in zip(predicates, spans, strict=True)
        ],
        rows[0].line,
    )


def _spans(path: Path, rows: list[_Row], column: int) -> list[Span]:
    """The labelled spans of one column."""
    spans: list[Span] = []
    opened: Span | None = None
    for number, row in enumerate(rows):
        cell = row.cells[column]
        found = f"{cell!r} in column {column + 1}"
        match = _CELL.fullmatch(cell)
        if match is None:
            raise InputError.at(path, row.line, found=found, expected="(LABEL*, *), (LABEL*) or *")
        label, closed, closes = match.groups()
        if label and opened:
            line = rows[opened.start].line
            expected = f"the end of {opened.label}, which starts in line {line}, before another argument"
            raise InputError.at(path, row.line, found=found, expected=expected)
        opened = Span(number, number + 1, label) if label else opened
        if closes and (opened is None or closed not in ("", opened.label)):
            expected = "* or (LABEL*" if opened is None else f"the end of {opened.label}"
            raise InputError.at(path, row.line, found=found, expected=expected)
        if closes and opened:
            spans.append(opened._replace(end=number + 1))
            opened = None
    if opened:
        raise InputError.at(
            path,
            rows[opened.start].line,
            found=f"{rows[opened.start].cells[column]!r} in column {column + 1}",
            expected=f"its end, *), by the end of the sentence in line {rows[-1].line}",
        )
    return spans


def _marked(rows: list[_Row], columns: Columns) -> list[int]:
    """The words that the columns call predicates."""
    marks = [name for name in (LEMMA, FRAMESET) if name in columns.names]
    return [
        number for number, row in enumerate(rows) if all(columns.cell(mark, row) != _NONE for mark in marks)
    ]


def _predicates(path: Path, rows: list[_Row], spans: list[list[Span]], marked: list[int]) -> list[int]:
    """
    The predicate of each column of arguments: the words that are marked as such; or, if their number is
    another, as where a lemma stands beside words that are no predicates, the first words of V.
    """
    if len(marked) == len(spans):
        return marked
    opening = [[span.start for span in column if span.label == PREDICATE] for column in spans]
    if all(opening):
        return [starts[0] for starts in opening]
    raise InputError.at(
        path,
        rows[0].line,
        found=f"{len(spans)} columns of arguments in a sentence of {len(marked)} predicates",
        expected="one for each predicate, or a (V*) in each",
    )


def _json_lines(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[SrlSentence]:
    for number, content in read_json_lines(path, lines, expected="an object"):
        try:
            yield _from_json(content, number)
        except _WrongJsonError as error:
            raise InputError.at(path, number, found=error.found, expected=error.expected) from error


class _WrongJsonError(Exception):
    """What is wrong with the JSON object of a line; the caller adds the file and the line."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.found, self.expected = found, expected


def _from_json(content: Any, line: int) -> SrlSentence:
    words = _strings(content, "tokens")
    pos = _strings(content, POS) if POS in content else None
    if not words or (pos is not None and len(pos) != len(words)):
        found = f"{len(words)} tokens" + ("" if pos is None else f" and {len(pos)} pos")
        raise _WrongJsonError(found, "one or more tokens, and as many pos if any")
    predicates = content.get("predicates", [])
    if not isinstance(predicates, list):
        raise _WrongJsonError(f'"predicates": {shorten_json(predicates)}', '"predicates": a list of objects')
    return SrlSentence(words, [_proposition(each, words, pos) for each in predicates], line)


def _strings(content: Any, name: str) -> list[str]:
    values = content.get(name) if isinstance(content, dict) else None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise _WrongJsonError(shorten_json(content), f'an object with "{name}": a list of strings')
    return values


def _proposition(content: Any, words: list[str], pos: list[str] | None) -> Proposition:
    try:
        index = content["index"]
        arguments = [
            Argument(each["label"], tuple((start, end) for start, end in each["spans"]))
            for each in content["arguments"]
        ]
        for label, spans in arguments:
            for start, end in spans:
                if start >= end:
                    expected = f"the end behind the last token, as [{start}, {max(start, end) + 1}]"
                    raise ValueError(f"found the span {[start, end]} of {label}, expected {expected}")
        if type(index) is not int or index not in range(len(words)):
            raise ValueError(f"found the index {index!r}, expected one of the tokens 0 to {len(words) - 1}")
        if not any(start <= index < end for argument in arguments for start, end in argument.spans):
            arguments.append(Argument(PREDICATE, ((index, index + 1),)))
        return Proposition(index, to_tags(arguments, len(words)), pos[index] if pos else None)
    except (KeyError, TypeError, ValueError) as error:
        raise _WrongJsonError(
            f"{shorten_json(content)} ({error})",
            'a predicate as {"index": 1, "arguments": [{"label": "ARG0", "spans": [[0, 1]]}]}',
        ) from error
