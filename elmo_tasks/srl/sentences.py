"""
Sentences with their predicates and arguments, from files of two formats.

Columns have one word a line and an empty line between sentences: the columns of CoNLL 2012 (OntoNotes,
https://conll.cemantix.org/2012/data.html), where lines that begin with `#begin document` and `#end document`
are not words, or others by name. Each predicate has a column of arguments, in the order of the predicates:
`(LABEL*` where an argument starts, `*)` where it ends, `(LABEL*)` for a single word, and `*` elsewhere. `/.`
and `/?`, which end some sentences of OntoNotes, are read as `.` and `?`.

JSON Lines have one sentence a line: `{"tokens": ["Ana", "flew", "to", "Lisbon"], "predicates": [{"index": 1,
"arguments": [{"label": "ARG0", "spans": [[0, 1]]}, {"label": "ARG4", "spans": [[2, 4]]}]}]}`. Spans are
half-open; an argument in parts has several. The predicate's own span has the label V; the word at `index`
gets it if it is in no span. `pos`, the parts of speech, is optional. Other keys are ignored, so that the
predictor's output can be read.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from elmo_tasks.data.formats.columns import BLANKS, ColumnLayout, line_groups
from elmo_tasks.data.formats.conll2012 import unescape
from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.data.json_lines import read_json_lines, shorten_json
from elmo_tasks.data.tag_schemes import Scheme, Span, from_spans
from elmo_tasks.srl.arguments import PREDICATE, Argument, to_tags

WORD, LEMMA, FRAMESET, POS, ARGUMENTS = "word", "predicate", "frameset", "pos", "arguments"
_BEFORE_ARGUMENTS = (
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
)
CONLL_2012 = (*_BEFORE_ARGUMENTS, ARGUMENTS, "coreference")
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
    """The predicate's part of speech, if the file has it."""


@dataclass
class SrlSentence:
    """
    The words of a sentence, a proposition for each predicate, and the sentence's first line in the file.
    """

    words: list[str]
    propositions: list[Proposition]
    line: int


def read_sentences(path: Path, columns: "Columns") -> Iterator[SrlSentence]:
    """
    Yields the sentences of a file. It is JSON Lines if the first line that is not blank starts with `{` and
    `"`.

    # Raises
    `InputError` with file and line, see `SrlReader`.
    """
    lines = read_lines(path)
    for number, line in lines:
        if line.strip(BLANKS):
            all_lines = chain([(number, line)], lines)
            if _JSON_OBJECT.match(line):
                for json_number, content in read_json_lines(path, all_lines, expected="an object"):
                    yield _from_json(path, json_number, content)
            else:
                for group in line_groups(all_lines, separators=_DOCUMENT):
                    yield _from_rows(path, columns.rows(path, group), columns)


class _Row(NamedTuple):
    """The cells of a word, and the number of its line in the file."""

    line: int
    cells: list[str]


class Columns(ColumnLayout):
    """
    The columns of a file of semantic roles.

    # Parameters

    names : names of the columns in order: `word`, `predicate` (`-` for a word that is none) and `arguments`
        (any number of columns) once each. With `frameset`, a word with `-` there is no predicate either;
        `pos` is the part of speech. All others are ignored.
    delimiter : text between two columns; `None` for any run of blanks and tabs.

    # Raises
    `ConfigurationError`: impossible columns or delimiter.
    """

    def __init__(self, names: Sequence[str], delimiter: str | None) -> None:
        super().__init__(names, delimiter, needed=(WORD, LEMMA, ARGUMENTS))
        self._first_of_arguments = self.names.index(ARGUMENTS)

    def cell(self, name: str, row: _Row) -> str:
        """Returns a row's cell in a column by name, other than the arguments."""
        column = self.names.index(name)
        return row.cells[column if column < self._first_of_arguments else column - len(self.names)]

    def argument_columns(self, row: _Row) -> range:
        """Returns the columns of arguments, as many as the row has cells for."""
        first = self._first_of_arguments
        return range(first, first + 1 + len(row.cells) - len(self.names))

    def rows(self, path: Path, lines: list[tuple[int, str]]) -> list[_Row]:
        """Returns the rows of a sentence, all with as many columns as the first."""
        rows: list[_Row] = []
        for number, line in lines:
            cells = self.split(line)
            if not rows and len(cells) < len(self.names) - 1:
                expected = f"{len(self.names) - 1} or more: {', '.join(self.names)}"
            elif rows and len(cells) != len(rows[0].cells):
                expected = f"{len(rows[0].cells)} as in line {rows[0].line}"
            else:
                rows.append(_Row(number, cells))
                continue
            found = f"{len(cells)} columns in {line[:80]!r}"
            raise InputError.at(path, number, found=found, expected=expected)
        return rows


def _from_rows(path: Path, rows: list[_Row], columns: Columns) -> SrlSentence:
    words = [unescape(columns.cell(WORD, row)) for row in rows]
    for word, row in zip(words, rows, strict=True):
        if not word:
            raise InputError.at(path, row.line, found="an empty word", expected="a word")
    spans_by_column = [_spans(path, rows, column) for column in columns.argument_columns(rows[0])]
    marks = [name for name in (LEMMA, FRAMESET) if name in columns.names]
    marked = [
        number for number, row in enumerate(rows) if all(columns.cell(mark, row) != _NONE for mark in marks)
    ]
    if spans_by_column == [[]] and not (marked and FRAMESET in marks):
        # Some files give a sentence without predicates an empty column. A lemma may stand beside any word.
        spans_by_column = []
    propositions = [
        Proposition(
            predicate,
            from_spans(spans, len(words), Scheme.IOB2),
            columns.cell(POS, rows[predicate]) if POS in columns.names else None,
        )
        for predicate, spans in zip(
            _predicates(path, rows, spans_by_column, marked), spans_by_column, strict=True
        )
    ]
    return SrlSentence(words, propositions, rows[0].line)


def _spans(path: Path, rows: list[_Row], column: int) -> list[Span]:
    """Returns the labelled spans of one column."""

    def error(row: _Row, expected: str) -> InputError:
        found = f"{row.cells[column]!r} in column {column + 1}"
        return InputError.at(path, row.line, found=found, expected=expected)

    spans: list[Span] = []
    opened: Span | None = None
    for number, row in enumerate(rows):
        match = _CELL.fullmatch(row.cells[column])
        if match is None:
            raise error(row, "(LABEL*, *), (LABEL*) or *")
        label, closed, closes = match.groups()
        if label and opened:
            start = f"which starts in line {rows[opened.start].line}"
            raise error(row, f"the end of {opened.label}, {start}, before another argument")
        opened = Span(number, number + 1, label) if label else opened
        if closes and (opened is None or closed not in ("", opened.label)):
            raise error(row, f"the end of {opened.label}" if opened else "* or (LABEL*")
        if closes and opened:
            spans.append(opened._replace(end=number + 1))
            opened = None
    if opened:
        end = f"the end of the sentence in line {rows[-1].line}"
        raise error(rows[opened.start], f"its end, *), by {end}")
    return spans


def _predicates(
    path: Path, rows: list[_Row], spans_by_column: list[list[Span]], marked: list[int]
) -> list[int]:
    """
    Returns the predicate of each column of arguments: the marked words; or, if their number differs, as in
    files with a lemma beside words that are not predicates, the first words of V.
    """
    if len(marked) == len(spans_by_column):
        return marked
    starts = [[span.start for span in spans if span.label == PREDICATE] for spans in spans_by_column]
    if all(starts):
        return [starts_of_column[0] for starts_of_column in starts]
    found = f"{len(spans_by_column)} columns of arguments in a sentence of {len(marked)} predicates"
    raise InputError.at(path, rows[0].line, found=found, expected="one for each predicate, or a (V*) in each")


def _from_json(path: Path, line: int, content: Any) -> SrlSentence:
    def strings(name: str) -> list[str]:
        values = content.get(name) if isinstance(content, dict) else None
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            expected = f'an object with "{name}": a list of strings'
            raise InputError.at(path, line, found=shorten_json(content), expected=expected)
        return values

    words = strings("tokens")
    pos = strings(POS) if POS in content else None
    if not words or (pos is not None and len(pos) != len(words)):
        found = f"{len(words)} tokens" + ("" if pos is None else f" and {len(pos)} pos")
        raise InputError.at(path, line, found=found, expected="one or more tokens, and as many pos if any")
    predicates = content.get("predicates", [])
    if not isinstance(predicates, list):
        found = f'"predicates": {shorten_json(predicates)}'
        raise InputError.at(path, line, found=found, expected='"predicates": a list of objects')
    propositions = []
    for predicate in predicates:
        try:
            propositions.append(_proposition(predicate, words, pos))
        except (KeyError, TypeError, ValueError) as error:
            found = f"{shorten_json(predicate)} ({error})"
            expected = 'a predicate as {"index": 1, "arguments": [{"label": "ARG0", "spans": [[0, 1]]}]}'
            raise InputError.at(path, line, found=found, expected=expected) from error
    return SrlSentence(words, propositions, line)


def _proposition(content: Any, words: list[str], pos: list[str] | None) -> Proposition:
    """
    # Raises
    `KeyError`, `TypeError`, `ValueError`: the content is not a predicate of these words.
    """
    index = content["index"]
    arguments = [
        Argument(each["label"], tuple((start, end) for start, end in each["spans"]))
        for each in content["arguments"]
    ]
    spans = [(label, *span) for label, parts in arguments for span in parts]
    for label, start, end in spans:
        if start >= end:
            expected = f"the end after the last token, as [{start}, {max(start, end) + 1}]"
            raise ValueError(f"found the span {[start, end]} of {label}, expected {expected}")
    if type(index) is not int or index not in range(len(words)):
        raise ValueError(f"found the index {index!r}, expected one of the tokens 0 to {len(words) - 1}")
    if not any(start <= index < end for _, start, end in spans):
        arguments.append(Argument(PREDICATE, ((index, index + 1),)))
    return Proposition(index, to_tags(arguments, len(words)), pos[index] if pos else None)
