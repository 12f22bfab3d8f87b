"""
Sentences with their predicates and arguments, from files of several formats.

Columns have one word a line and an empty line between sentences. Each predicate has a column of arguments, in
the order of the predicates: `(LABEL*` where an argument starts, `*)` where it ends, `(LABEL*)` for a single
word, and `*` elsewhere. Arguments inside of others, such as `(ARG0(ARG1*))`, are left out.

- `conll2012`: OntoNotes (https://conll.cemantix.org/2012/data.html). Lines that begin with `#begin document`
  and `#end document` are not words. `/.` and `/?`, which end some sentences, are read as `.` and `?`.
- `conll2005`: the words and the props of CoNLL-2005 (https://www.cs.upc.edu/~srlconll/) side by side: word,
  predicate, arguments; or all of its columns, as in `train-set.gz`. Words and props may be two files, such as
  `train.words` and `train.props`, also in two folders `words` and `props`.
- `words`: a word a line, without predicates.

`json_lines`: one sentence a line: `{"tokens": ["Ana", "flew", "to", "Lisbon"], "predicates": [{"index": 1,
"arguments": [{"label": "ARG0", "spans": [[0, 1]]}, {"label": "ARG4", "spans": [[2, 4]]}]}]}`. Spans are
half-open; an argument in parts has several. The predicate's own span has the label V; the word at `index`
gets it if it is in no span. `pos`, the parts of speech, is optional. Other keys are ignored, so that the
predictor's output can be read. Without `arguments`, or as a number, a predicate is for prediction.

`he2017`: a proposition a line, as in the code of He et al. 2017: the index of the predicate, the words,
`|||`, and tags in IOB2, which may be missing: `1 Ana flew . ||| B-A0 B-V O`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

from elmo_tasks.data.fields import ids_of
from elmo_tasks.data.formats.columns import (
    BLANKS,
    ColumnLayout,
    Lines,
    begin_document_id,
    split_cells,
    unescape,
)
from elmo_tasks.data.input_files import (
    InputError,
    NoWordsError,
    named_by,
    parse_json,
    read_lines,
    shorten_json,
)
from elmo_tasks.data.tag_schemes import Scheme, Span, TagError, from_spans, to_spans
from elmo_tasks.srl.metric import PREDICATE, Argument, to_tags

Format = Literal["auto", "conll2012", "conll2005", "words", "json_lines", "he2017"]

WORD, LEMMA, FRAMESET, POS, ARGUMENTS = "word", "predicate", "frameset", "pos", "arguments"
_NUMBER = "number"
_BEFORE_ARGUMENTS = (
    "document",
    "part",
    _NUMBER,
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
CONLL_2005 = (WORD, LEMMA, ARGUMENTS)
ALL_OF_2005 = (WORD, POS, "parse", "entity", "sense", LEMMA, ARGUMENTS)
"""The columns of `train-set.gz` and the like, which the scripts of CoNLL-2005 make."""
_PLAIN = (WORD, POS, "sense", LEMMA)
"""The columns of these that have no brackets."""
_DOCUMENT = ("#begin document", "#end document")
_JSON_OBJECT = re.compile(r'[ \t]*\{[ \t]*"')
_NONE = "-"
_CELL = re.compile(r"((?:\([^()*]+)*)\*((?:[^()*]*\))*)")
_PROPOSITION = re.compile(r"[ \t]*(\d+)[ \t](.*?)[ \t]\|\|\|(.*)")


@dataclass
class Proposition:
    """A predicate, by its index among the words, and the IOB2 tags of its arguments and itself."""

    predicate: int
    tags: list[str] | None
    """`None`: the arguments are not known."""
    pos: str | None = None


class Nested(NamedTuple):
    """An argument that is left out, since it lies inside of another: its line, and the labels of both."""

    line: int
    label: str
    outer: str


@dataclass
class SrlSentence:
    """The words of a sentence, a proposition for each predicate, and the first line in the file."""

    words: list[str]
    propositions: list[Proposition]
    line: int
    marked: bool = True
    """Whether the file says which words are predicates."""
    ids: dict[str, Any] = field(default_factory=dict, compare=False)
    """The keys by which the file names the sentence."""
    nested: list[Nested] = field(default_factory=list, compare=False)
    without_arguments: list[int] = field(default_factory=list, compare=False)
    """Predicates of a sentence that has no columns of arguments; they are for prediction alone."""


def word_files(paths: Iterable[Path]) -> list[Path]:
    """Returns the files, with the words of CoNLL-2005 in place of each file of props."""
    return list(dict.fromkeys(_counterpart(path, "props", "words") or path for path in paths))


def read_sentences(
    path: Path,
    columns: "Columns | None" = None,
    *,
    format: Format = "auto",
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> Iterator[Callable[[], SrlSentence]]:
    """
    Yields a function for each sentence of a file, which makes it; for errors see `SrlReader`. By default the
    format is found from the first sentence, and `columns` are those of the format.
    """
    lines: Iterator[tuple[int, str]] = read_lines(path, encoding=encoding)
    names_of_2005: Sequence[str] = CONLL_2005
    props = _counterpart(path, "words", "props")
    if props is not None and columns is None and format in ("auto", "conll2005"):
        lines, path, format = _side_by_side(path, props, encoding), props, "conll2005"
    elif format in ("auto", "conll2005"):
        lines_read, rows = _first_sentence(lines)
        first = [line for _, line in rows]
        format = _format(first, delimiter) if format == "auto" else format
        names_of_2005 = _names_of_2005(first, delimiter) or CONLL_2005
        lines = chain(lines_read, lines)
    if format in ("json_lines", "he2017"):
        read = _from_json if format == "json_lines" else _from_proposition
        yield from (partial(read, path, *each) for each in lines if each[1].strip(BLANKS))
        return
    if columns is None:
        names = {"conll2012": CONLL_2012, "conll2005": names_of_2005, "words": (WORD,)}[format]
        columns = Columns(names, delimiter)
    document: list[str] = []
    sentences: Counter[str] = Counter()
    for group in columns.sentences(path, _tracking_document(lines, document), separators=_DOCUMENT):
        name = "".join(document)
        ids: dict[str, Any] = ({"doc_key": name} if name else {}) | {"sentence": sentences[name]}
        sentences[name] += 1
        yield partial(_named, ids, _from_rows, path, group, columns)


def format_of(path: Path, *, delimiter: str | None = None, encoding: str = "utf-8") -> Format:
    """Returns the format of a file, by its first sentence."""
    if _counterpart(path, "words", "props") or _counterpart(path, "props", "words"):
        return "conll2005"
    return _format([line for _, line in _first_sentence(read_lines(path, encoding=encoding))[1]], delimiter)


def _first_sentence(lines: Iterable[tuple[int, str]]) -> tuple[Lines, Lines]:
    """Takes the lines up to the end of the first sentence; returns all of them, and its rows."""
    taken: Lines = []
    rows: Lines = []
    for line_number, line in lines:
        taken.append((line_number, line))
        if line.strip(BLANKS) and not line.startswith("#"):
            rows.append((line_number, line))
        if rows and (_is_record(line) or not line.strip(BLANKS)):
            break
    return taken, rows


def _tracking_document(lines: Iterable[tuple[int, str]], document: list[str]) -> Iterator[tuple[int, str]]:
    """Yields the lines, and keeps the id of the document that the last one is in."""
    for line_number, line in lines:
        # A line that begins a document still ends the sentence before it.
        yield line_number, line
        if line[:1] == "#" and line.startswith(_DOCUMENT):
            document[:] = filter(None, [begin_document_id(line)])


def _is_record(line: str) -> bool:
    return bool(_JSON_OBJECT.match(line) or _PROPOSITION.match(line))


def _format(rows: list[str], delimiter: str | None) -> Format:
    if rows and _is_record(rows[0]):
        return "json_lines" if _JSON_OBJECT.match(rows[0]) else "he2017"
    if {len(split_cells(row, delimiter)) for row in rows} == {1}:
        return "words"
    return "conll2005" if _names_of_2005(rows, delimiter) else "conll2012"


def _names_of_2005(rows: list[str], delimiter: str | None) -> Sequence[str] | None:
    """Returns the columns of a sentence of CoNLL-2005, one of arguments for each predicate, or `None`."""
    cells = [split_cells(row, delimiter) for row in rows]
    for names in (CONLL_2005, ALL_OF_2005):
        lemma = names.index(LEMMA)
        predicates = sum(row[lemma] != _NONE for row in cells if len(row) > lemma)
        named = (zip_longest(names, row, fillvalue="*") for row in cells)
        brackets = (cell for row in named for name, cell in row if name not in _PLAIN)
        if {*map(len, cells)} == {len(names) - 1 + predicates} and all(map(_CELL.fullmatch, brackets)):
            return names
    return None


def _counterpart(path: Path, name: str, other: str) -> Path | None:
    """Returns the file of CoNLL-2005 that belongs to another: `train.props.gz` to `train.words.gz`."""
    pattern = rf"(?<![a-zA-Z]){name}(?![a-zA-Z])"
    if not re.search(pattern, path.name):
        return None
    folder = path.parent.with_name(other) if path.parent.name == name else path.parent
    counterpart = folder / re.sub(pattern, other, path.name)
    return counterpart if counterpart.is_file() else None


def _side_by_side(words: Path, props: Path, encoding: str) -> Iterator[tuple[int, str]]:
    nothing = (0, "")
    pairs = zip_longest(
        read_lines(words, encoding=encoding), read_lines(props, encoding=encoding), fillvalue=nothing
    )
    for line_number, ((word_line, word), (line, cells)) in enumerate(pairs, start=1):
        word, cells = word.strip(BLANKS), cells.strip(BLANKS)
        if bool(word) != bool(cells):
            expected = f"a line for {word!r}" if word else "none, as"
            expected += f" in line {word_line or line_number} of {words}"
            raise InputError.at(props, line or line_number, found=repr(cells[:80]), expected=expected)
        yield line_number, f"{word}\t{cells}" if word else ""


class _Row(NamedTuple):
    """The cells of a word, and the number of its line in the file."""

    line: int
    cells: list[str]


class Columns(ColumnLayout):
    """
    The columns of a file of semantic roles.

    # Parameters

    names : names of the columns in order: `word` alone; or `word`, `predicate` (`-` for a word that is none)
        and `arguments` (any number of columns) once each. With `frameset`, a word with `-` there is no
        predicate either; `pos` is the part of speech. All others are ignored.
    delimiter : see `ColumnLayout`.
    """

    def __init__(self, names: Sequence[str], delimiter: str | None) -> None:
        super().__init__(names, delimiter, needed=(WORD,) if list(names) == [WORD] else CONLL_2005)
        self._first_of_arguments = self.names.index(ARGUMENTS) if ARGUMENTS in names else len(names)

    def fits(self, cells: list[str]) -> bool:
        arguments = (cells[column] for column in self.argument_columns(_Row(0, cells)))
        return self._has_size(len(cells)) and all(map(_CELL.fullmatch, arguments))

    def _has_size(self, size: int) -> bool:
        return size == self._min_columns or (size > self._min_columns and ARGUMENTS in self.names)

    @property
    def _min_columns(self) -> int:
        return len(self.names) - (ARGUMENTS in self.names)

    def cell(self, name: str, row: _Row) -> str:
        """Returns a row's cell in a column by name, other than the arguments."""
        column = self.names.index(name)
        return row.cells[column if column < self._first_of_arguments else column - len(self.names)]

    def argument_columns(self, row: _Row) -> range:
        """Returns the columns of arguments, as many as the row has cells for."""
        first = self._first_of_arguments
        return range(first, first + len(row.cells) - self._min_columns)

    def rows(self, path: Path, lines: list[tuple[int, str]]) -> list[_Row]:
        """Returns the rows of a sentence, all with as many columns as the first."""
        rows: list[_Row] = []
        for line_number, line in lines:
            cells = self.split(line)
            if not rows and not self._has_size(len(cells)):
                more = " or more" if ARGUMENTS in self.names else ""
                expected = f"{self._min_columns}{more}: {', '.join(self.names)}"
            elif rows and len(cells) != len(rows[0].cells):
                expected = f"{len(rows[0].cells)} as in line {rows[0].line}"
            else:
                rows.append(_Row(line_number, cells))
                continue
            found = f"{len(cells)} columns in {line[:80]!r}"
            raise InputError.at(path, line_number, found=found, expected=expected)
        return rows


def _named(ids: dict[str, Any], make: Callable[..., SrlSentence], *arguments: Any) -> SrlSentence:
    """Returns the sentence that a function makes, with its ids; they are in an error, too."""
    with named_by(ids):
        sentence = make(*arguments)
    sentence.ids = ids
    return sentence


def _from_rows(path: Path, lines: Lines, columns: Columns) -> SrlSentence:
    rows = columns.rows(path, lines)
    words = [unescape(columns.cell(WORD, row)) for row in rows]
    for word, row in zip(words, rows, strict=True):
        if not word:
            raise InputError.at(path, row.line, found="an empty word", expected="a word")
        # Other files have as many columns, such as those of CoNLL-2008 and Universal PropBank.
        if _NUMBER in columns.names and not (cell := columns.cell(_NUMBER, row)).isdecimal():
            column = columns.names.index(_NUMBER) + 1
            expected = f"the number of the word {word!r}, as CoNLL-2012 has it"
            raise InputError.at(path, row.line, found=f"{cell!r} in column {column}", expected=expected)
    sentence = SrlSentence(words, [], rows[0].line, marked=columns.names != [WORD])
    if not sentence.marked:
        return sentence
    spans_and_nested = [_spans(path, rows, column) for column in columns.argument_columns(rows[0])]
    marks = [name for name in (LEMMA, FRAMESET) if name in columns.names]
    marked = [
        index for index, row in enumerate(rows) if all(columns.cell(mark, row) != _NONE for mark in marks)
    ]
    if spans_and_nested == [([], [])] and not (marked and FRAMESET in marks):
        # Some files give a sentence without predicates an empty column. A lemma may stand beside any word.
        spans_and_nested = []
    spans_by_column = [spans + nested for spans, nested in spans_and_nested]
    propositions = [
        Proposition(
            predicate,
            from_spans(spans, len(words), Scheme.IOB2),
            columns.cell(POS, rows[predicate]) if POS in columns.names else None,
        )
        for predicate, (spans, _) in zip(
            _predicates(path, rows, spans_by_column, marked), spans_and_nested, strict=True
        )
    ]
    if not columns.argument_columns(rows[0]) and (
        FRAMESET in marks or tuple(columns.names) in (CONLL_2005, ALL_OF_2005)
    ):
        sentence.without_arguments = marked
    nested = [
        Nested(
            rows[inner.start].line,
            inner.label,
            next(outer.label for outer in spans if outer.start <= inner.start < outer.end),
        )
        for spans, inner_spans in spans_and_nested
        for inner in inner_spans
    ]
    sentence.propositions, sentence.nested = propositions, nested
    return sentence


def _spans(path: Path, rows: list[_Row], column: int) -> tuple[list[Span], list[Span]]:
    """Returns the labelled spans of one column, and those that lie inside of them."""

    def error(row: _Row, expected: str) -> InputError:
        found = f"{row.cells[column]!r} in column {column + 1}"
        return InputError.at(path, row.line, found=found, expected=expected)

    spans: list[Span] = []
    nested: list[Span] = []
    opened: list[Span] = []
    for index, row in enumerate(rows):
        cell = row.cells[column]
        if cell == "*":
            continue
        if _CELL.fullmatch(cell) is None:
            raise error(row, "(LABEL*, *), (LABEL*) or *")
        starts, ends = cell.split("*")
        opened += [Span(index, index + 1, label) for label in starts.split("(")[1:]]
        for label in ends.split(")")[:-1]:
            if not opened or label not in ("", opened[-1].label):
                raise error(row, f"the end of {opened[-1].label}" if opened else "* or (LABEL*")
            span = opened.pop()._replace(end=index + 1)
            (nested if opened else spans).append(span)
    if opened:
        end = f"the end of the sentence in line {rows[-1].line}"
        raise error(rows[opened[0].start], f"its end, *), by {end}")
    return spans, nested


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


def _from_json(path: Path, line: int, text: str) -> SrlSentence:
    content = parse_json(text, path, line, expected="an object")
    ids = ids_of(content) if isinstance(content, dict) else {}
    return _named(ids, _from_object, path, line, content)


def _from_object(path: Path, line: int, content: Any) -> SrlSentence:
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
        error = InputError if words else NoWordsError
        raise error.at(path, line, found=found, expected="one or more tokens, and as many pos if any")
    sentence = SrlSentence(words, [], line, marked="predicates" in content)
    try:
        _check_keys(content, "predicates")
    except KeyError as error:
        raise InputError.at(path, line, found=error.args[0], expected='"predicates"') from error
    predicates = content.get("predicates", [])
    if not isinstance(predicates, list):
        found = f'"predicates": {shorten_json(predicates)}'
        raise InputError.at(path, line, found=found, expected='"predicates": a list of objects')
    for predicate in predicates:
        try:
            sentence.propositions.append(_proposition(predicate, sentence, pos))
        except (KeyError, TypeError, ValueError) as error:
            found = f"{shorten_json(predicate)} ({error})"
            expected = 'a predicate as {"index": 1, "arguments": [{"label": "ARG0", "spans": [[0, 1]]}]}'
            raise InputError.at(path, line, found=found, expected=expected) from error
    return sentence


def _check_keys(content: dict[str, Any], name: str) -> None:
    """Raises `KeyError` if the object lacks the key `name`, but has one that is almost the same."""
    near = get_close_matches(name, [key.lower() for key in content], n=1, cutoff=0.85)
    if near and name not in content:
        raise KeyError(f"the key {near[0]!r}")


def _proposition(content: Any, sentence: SrlSentence, pos: list[str] | None) -> Proposition:
    """Returns the proposition of a predicate; its arguments inside of others are noted in the sentence."""
    words = sentence.words
    if type(content) is int:
        content = {"index": content}
    index = content["index"]
    if type(index) is not int or index not in range(len(words)):
        raise ValueError(f"found the index {index!r}, expected one of the tokens 0 to {len(words) - 1}")
    pos_of_predicate = pos[index] if pos else None
    if "arguments" not in content:
        _check_keys(content, "arguments")
        return Proposition(index, None, pos_of_predicate)
    arguments = [
        Argument(each["label"], tuple((start, end) for start, end in each["spans"]))
        for each in content["arguments"]
    ]
    spans = [Span(*span, label) for label, parts in arguments for span in parts]
    for start, end, label in spans:
        if start >= end:
            expected = f"the end after the last token, as [{start}, {max(start, end) + 1}]"
            raise ValueError(f"found the span {[start, end]} of {label}, expected {expected}")
    arguments = _outer(arguments, spans, sentence)
    if not any(start <= index < end for start, end, _ in spans):
        arguments.append(Argument(PREDICATE, ((index, index + 1),)))
    return Proposition(index, to_tags(arguments, len(words)), pos_of_predicate)


def _outer(arguments: list[Argument], spans: list[Span], sentence: SrlSentence) -> list[Argument]:
    """Returns the arguments without spans that lie inside of others, which are noted in the sentence."""
    inner: set[Span] = set()
    for i, (start, end, label) in enumerate(spans):
        for j, other in enumerate(spans):
            same = (other.start, other.end) == (start, end)
            inside = other.start <= start and end <= other.end
            if inside and (j < i if same else True) and other != (start, end, label):
                inner.add(spans[i])
                sentence.nested.append(Nested(sentence.line, label, other.label))
                break
    if not inner:
        return arguments
    kept = [
        Argument(label, tuple(part for part in parts if Span(*part, label) not in inner))
        for label, parts in arguments
    ]
    return [argument for argument in kept if argument.spans]


def _from_proposition(path: Path, line: int, text: str) -> SrlSentence:
    match = _PROPOSITION.fullmatch(text)
    if match is None:
        expected = "the index of a predicate, words, |||, and tags if any"
        raise InputError.at(path, line, found=repr(text[:80]), expected=expected)
    index, words, tags = int(match[1]), match[2].split(), match[3].split()
    if index >= len(words) or (tags and len(tags) != len(words)):
        found = f"{len(words)} words, {len(tags)} tags and the index {index}"
        raise InputError.at(
            path, line, found=found, expected="an index of a word from 0, and a tag for each word"
        )
    try:
        to_spans(tags, Scheme.IOB2)
    except TagError as error:
        raise InputError(error.problem, where=path, line=line) from error
    return SrlSentence(words, [Proposition(index, tags or None)], line)
