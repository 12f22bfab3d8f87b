"""
Sentences with predicates and their arguments. `docs/data.md` shows the formats.

In columns each predicate has a column of arguments, in the order of the predicates: `conll2012`, and
`conll2005`, whose words and props may be two files, also in two folders. `words` has no predicates. In
`json_lines` an argument in parts has several spans; the word at `index` gets the label V if it is in no span.
Other keys are ignored, so that the predictor's output can be read. Without `arguments`, or as a number, a
predicate is for prediction, as in `he2017` without tags.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from elmo_tasks.common.errors import errors_as
from elmo_tasks.data.formats import Fit, Format
from elmo_tasks.data.formats.columns import (
    BLANKS,
    DOCUMENT,
    ColumnLayout,
    Lines,
    begin_document_id,
    first_sentence,
    read_conllu,
    split_cells,
    unescape,
)
from elmo_tasks.data.formats.records import read_json_records
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.input_files import (
    InputError,
    NoWordsError,
    counterpart,
    ids_of,
    nonblank_lines,
    read_lines,
    read_side_by_side,
    shorten_json,
    value_or_error,
)
from elmo_tasks.data.tag_schemes import Scheme, Span, TagError, to_spans

PREDICATE = "V"
WORD, LEMMA, FRAMESET, POS, ARGUMENTS = "word", "predicate", "frameset", "pos", "arguments"
_NUMBER = "number"
CONLL_2012 = (
    *("document", "part", _NUMBER, WORD, POS, "parse", LEMMA, FRAMESET, "sense", "speaker", "entity"),
    *(ARGUMENTS, "coreference"),
)
CONLL_2005 = (WORD, LEMMA, ARGUMENTS)
WORDS, PROPS = "words", "props"
"""Parts of the names of files of CoNLL-2005 that are read together."""
ALL_OF_2005 = (WORD, POS, "parse", "entity", "sense", LEMMA, ARGUMENTS)
"""The columns of `train-set.gz` and the like, which the scripts of CoNLL-2005 make."""
_PLAIN = (WORD, POS, "sense", LEMMA)
"""The columns of these that have no brackets."""
_JSON_OBJECT = re.compile(r'[ \t]*\{[ \t]*"(?:[^"\\]|\\.)*"[ \t]*:')
_NONE = "-"
_CELL = re.compile(r"((?:\([^()*]+)*)\*((?:[^()*]*\))*)")
_PROPOSITION = re.compile(r"[ \t]*(\d+)[ \t](.*?)[ \t]\|\|\|(.*)")


class RoleArgument(NamedTuple):
    """A label, and the words `[start, end)` of each part, from left to right."""

    label: str
    spans: tuple[tuple[int, int], ...]


@dataclass
class RolePredicate:
    """A predicate, by its index among the words, and its arguments, also those inside of others, and V."""

    index: int
    arguments: list[RoleArgument] | None
    """`None`: the arguments are not known."""
    pos: str | None = None


@dataclass
class RoleSentence:
    """The words of a sentence with their lines, and its predicates."""

    words: list[str]
    lines: Sequence[int]
    predicates: list[RolePredicate] = field(default_factory=list)
    marked: bool = True
    """Whether the file says which words are predicates."""
    ids: dict[str, Any] = field(default_factory=dict)


class RoleOptions(NamedTuple):
    """What the keys of a reader say about files with predicates."""

    columns: Sequence[str] | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"


Sentences = Iterator[RoleSentence | InputError]


# Columns


class RoleColumns(ColumnLayout):
    """
    The columns of a file of semantic roles: `word` alone; or `word`, `predicate` (`-` for other words) and
    `arguments` (any number of columns) once each. With `frameset`, a word with `-` there is not a predicate
    either; `pos` is the part of speech. All others are ignored.
    """

    def __init__(self, names: Sequence[str], delimiter: str | None) -> None:
        super().__init__(names, delimiter, needed=(WORD,) if list(names) == [WORD] else CONLL_2005)
        self.first = self.names.index(ARGUMENTS) if ARGUMENTS in names else len(names)
        self._min_columns = len(self.names) - (ARGUMENTS in self.names)

    def fits(self, cells: list[str]) -> bool:
        return self._has_size(cells) and all(map(_CELL.fullmatch, self.arguments(cells)))

    def _has_size(self, cells: list[str]) -> bool:
        return len(cells) == self._min_columns or (len(cells) > self._min_columns and ARGUMENTS in self.names)

    def arguments(self, cells: list[str]) -> list[str]:
        return cells[self.first : self.first + len(cells) - self._min_columns]

    def values(self, cells: list[str]) -> dict[str, str]:
        """Returns a row's cells by name, other than the arguments."""
        others = cells[: self.first] + cells[self.first + len(cells) - self._min_columns :]
        return dict(zip((name for name in self.names if name != ARGUMENTS), others, strict=True))

    def rows(self, lines: Lines) -> list[list[str]]:
        rows = [self.split(line) for _, line in lines]
        for (line_number, line), cells in zip(lines, rows, strict=True):
            if len(cells) != len(rows[0]) or not self._has_size(cells):
                needed = f"{len(rows[0])} as in line {lines[0][0]}"
                if not self._has_size(rows[0]):
                    more = " or more" if ARGUMENTS in self.names else ""
                    needed = f"{self._min_columns}{more}: {', '.join(self.names)}"
                problem = f"{line[:80]!r} has {len(cells)} columns, not {needed}"
                raise InputError(problem, line=line_number)
        return rows


def read_columns(
    path: Path,
    options: RoleOptions,
    names: Sequence[str] = CONLL_2012,
    lines: Iterable[tuple[int, str]] | None = None,
) -> Sentences:
    """Yields the sentences of a file, or of its numbered `lines`, by default in the columns `names`."""
    layout = RoleColumns(options.columns or names, options.delimiter)
    lines = read_lines(path, encoding=options.encoding) if lines is None else lines
    document = ""

    def rows() -> Iterator[tuple[int, str]]:
        nonlocal document
        for line_number, line in lines:
            # A line that begins a document still ends the sentence before it.
            yield line_number, line
            if line[:1] == "#" and DOCUMENT.match(line):
                document = begin_document_id(line) or ""

    numbers: Counter[str] = Counter()
    for group in layout.sentences(path, rows(), separators=DOCUMENT):
        ids = ({"doc_key": document} if document else {}) | {"sentence": numbers[document]}
        numbers[document] += 1
        sentence = value_or_error(path, None, _from_rows, group, layout)
        sentence.ids = ids
        yield sentence


def _from_rows(lines: Lines, layout: RoleColumns) -> RoleSentence:
    rows = layout.rows(lines)
    values = [layout.values(cells) for cells in rows]
    for (line_number, _), row in zip(lines, values, strict=True):
        if not row[WORD]:
            raise InputError("a word is empty", line=line_number)
        # Other files have as many columns, such as CoNLL-2008 and Universal PropBank.
        if not row.get(_NUMBER, "0").isdecimal():
            column = f"column {layout.names.index(_NUMBER) + 1}"
            problem = f"{row[_NUMBER]!r} in {column} is not a number of a word, as in CoNLL-2012"
            raise InputError(problem, line=line_number)
    words, line_numbers = [unescape(row[WORD]) for row in values], [line_number for line_number, _ in lines]
    if layout.names == [WORD]:
        return RoleSentence(words, line_numbers, marked=False)
    columns = zip(*map(layout.arguments, rows), strict=True)
    spans = [_spans(line_numbers, cells, column) for column, cells in enumerate(columns, layout.first)]
    marked = [i for i, row in enumerate(values) if _NONE not in (row.get(LEMMA), row.get(FRAMESET))]
    arguments: list[list[RoleArgument] | None] = [
        [RoleArgument(label, ((start, end),)) for start, end, label in column] for column in spans
    ]
    are_verbs = FRAMESET in layout.names or tuple(layout.names) in (CONLL_2005, ALL_OF_2005)
    if spans == [[]] and not (marked and FRAMESET in layout.names):
        # Some files give a sentence without predicates an empty column. Any word may have a lemma.
        marked, arguments = [], []
    elif not spans and are_verbs:
        arguments = [None] * len(marked)
    elif len(marked) != len(spans):
        # A lemma may be given for words that are not predicates: V is where the predicate is.
        starts = [[span.start for span in column if span.label == PREDICATE] for column in spans]
        if not all(starts):
            raise InputError(
                f"the sentence has {len(marked)} predicates and {len(spans)} columns of arguments",
                line=line_numbers[0],
                remedy="each predicate needs a column, or each column a (V*)",
            )
        marked = [starts_of_column[0] for starts_of_column in starts]
    predicates = [
        RolePredicate(index, listed, values[index].get(POS))
        for index, listed in zip(marked, arguments, strict=True)
    ]
    return RoleSentence(words, line_numbers, predicates)


def _spans(lines: Sequence[int], cells: Sequence[str], column: int) -> list[Span]:
    """Returns the labelled spans of one column, in the order in which they open."""

    def error(index: int, problem: str) -> InputError:
        return InputError(f"{cells[index]!r} in column {column + 1} {problem}", line=lines[index])

    spans: list[Span] = []
    opened: list[int] = []
    for index, cell in enumerate(cells):
        if cell == "*":
            continue
        if _CELL.fullmatch(cell) is None:
            raise error(index, "is not one of (LABEL*, *), (LABEL*) and *")
        starts, ends = cell.split("*")
        for label in starts.split("(")[1:]:
            opened.append(len(spans))
            spans.append(Span(index, len(cells), label))
        for label in ends.split(")")[:-1]:
            if not opened or label not in ("", spans[opened[-1]].label):
                raise error(index, f"must end {spans[opened[-1]].label}" if opened else "ends no argument")
            last = opened.pop()
            spans[last] = spans[last]._replace(end=index + 1)
    if opened:
        raise error(spans[opened[0]].start, f"does not end, *), before the sentence does in line {lines[-1]}")
    return spans


# CoNLL-2005: two files, or one


def _read_conll2005(path: Path, options: RoleOptions) -> Sentences:
    props = counterpart(path, WORDS, PROPS)
    if props is not None and options.columns is None:
        lines = _side_by_side(path, props, options.encoding)
        return read_columns(props, options, CONLL_2005, lines)
    begin, rows = first_sentence(lines := read_lines(path, encoding=options.encoding))
    names = _names_of_2005(rows, options.delimiter) or CONLL_2005
    return read_columns(path, options, names, chain(begin, lines))


def _side_by_side(words: Path, props: Path, encoding: str) -> Iterator[tuple[int, str]]:
    for line_number, word, cells in read_side_by_side(words, props, encoding):
        word, cells = word.strip(BLANKS), cells.strip(BLANKS)
        if bool(word) != bool(cells):
            problem = f"{cells[:80]!r} does not fit {word!r} in the same line of {words}"
            raise InputError(problem, where=props, line=line_number)
        yield line_number, f"{word}\t{cells}" if word else ""


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


# Dependencies

_PREDICATE_UP, _PREDICATE_2009, _HEAD_2009 = 10, 13, 8
"""The columns of the predicate in Universal PropBank and in CoNLL-2009, and of the head in CoNLL-2009."""
_FLAG_UP, _PREDICATE = 8, "Y"
"""The column with the mark of predicates that some treebanks of Universal PropBank have two before these."""
_EMPTY = ("_", "-", "")
_COLUMNS_OF_PLUS = re.compile("# *global.columns *= *(.*)")
_FORM, _UPOS, _SENSE, _HEADS, _SPANS = "FORM", "UPOS", "UP:PRED", "UP:ARGHEADS", "UP:ARGSPANS"
_ARGUMENT = re.compile(r"([^|]+):(\d+)(?:-(\d+))?")


def columns_of_plus(lines: Iterable[str]) -> list[str]:
    """Returns the names of the columns of CoNLL-U Plus, which the first line has; none of other lines."""
    return next((match[1].split() for line in lines if (match := _COLUMNS_OF_PLUS.match(line))), [])


def _read_dependencies(path: Path, options: RoleOptions) -> Sentences:
    names: list[str] = []
    for rows, comments in read_conllu(path, encoding=options.encoding, columns=None):
        names = columns_of_plus(comments) or names
        make = partial(_from_columns_of_plus, names) if names else _from_dependencies
        yield value_or_error(path, None, make, rows)


def _from_dependencies(rows: list[tuple[int, list[str]]]) -> RoleSentence:
    first = _predicate_column([cells for _, cells in rows])
    marked = [index for index, (_, cells) in enumerate(rows) if {*cells[first : first + 1]} - {*_EMPTY}]
    needed = first + 1 + len(marked)
    for line, cells in rows:
        # A sentence without predicates may lack the columns after that of the relation.
        if len(cells) not in (range(_FLAG_UP, needed + 1) if not marked else (needed,)):
            problem = f"the row has {len(cells)} columns, and {needed} are needed"
            remedy = "one for each predicate after the column of the predicates"
            raise InputError(f"{problem}: {remedy}", line=line)
    sentence = RoleSentence([cells[1] for _, cells in rows], [line for line, _ in rows])
    for column, index in enumerate(marked, start=first + 1):
        labels = [(position, cells[column]) for position, (_, cells) in enumerate(rows)]
        arguments = [RoleArgument(each, ((i, i + 1),)) for i, each in labels if each not in _EMPTY]
        sentence.predicates.append(_with_itself(index, arguments, rows[index][1][3]))
    return sentence


def _predicate_column(rows: Sequence[list[str]]) -> int:
    if any(cells[_FLAG_UP : _FLAG_UP + 1] == [_PREDICATE] for cells in rows):
        return _PREDICATE_UP - 1
    is_2009 = len(rows[0]) > _PREDICATE_2009 and rows[0][_HEAD_2009].isdecimal()
    return _PREDICATE_2009 if is_2009 else _PREDICATE_UP


def _from_columns_of_plus(names: list[str], rows: list[tuple[int, list[str]]]) -> RoleSentence:
    sentence = RoleSentence([], [line for line, _ in rows])
    for index, (line, cells) in enumerate(rows):
        if len(cells) != len(names):
            raise InputError(
                f"the row has {len(cells)} columns, not {len(names)}: {' '.join(names)}", line=line
            )
        values = dict(zip(names, cells, strict=True))
        sentence.words.append(values[_FORM])
        if values[_SENSE] not in _EMPTY:
            listed = values[_SPANS if _SPANS in values else _HEADS]
            found = _ARGUMENT.findall(listed)
            spans = [(label, int(first) - 1, int(last or first)) for label, first, last in found]
            if any(not 0 <= start < end <= len(rows) for _, start, end in spans):
                raise InputError(f"{listed!r} has a word that is not in the sentence", line=line)
            arguments = [RoleArgument(label, ((start, end),)) for label, start, end in dict.fromkeys(spans)]
            sentence.predicates.append(_with_itself(index, arguments, values.get(_UPOS)))
    return sentence


def _with_itself(index: int, arguments: list[RoleArgument], pos: str | None) -> RolePredicate:
    """Returns a predicate whose word gets the label V if it is in no span."""
    if not any(start <= index < end for _, parts in arguments for start, end in parts):
        arguments.append(RoleArgument(PREDICATE, ((index, index + 1),)))
    return RolePredicate(index, arguments, pos)


# JSON Lines


def _read_json_lines(path: Path, options: RoleOptions) -> Sentences:
    for record in read_json_records(path, encoding=options.encoding):
        yield record.make(partial(_from_json, record.line))


def _from_json(line: int, content: dict[str, Any]) -> RoleSentence:
    words: Any = content.get("tokens")
    pos = content.get(POS)
    if words == []:
        raise NoWordsError('"tokens" is empty')
    for name, values in (("tokens", words), (POS, words if pos is None else pos)):
        is_list = isinstance(values, list) and all(isinstance(value, str) for value in values)
        if not is_list or len(values) != len(words):
            raise InputError(f'{shorten_json(content)} needs "{name}", a text for each token')
    sentence = RoleSentence(words, [line] * len(words), marked="predicates" in content, ids=ids_of(content))
    remedy = 'write {"index": 1, "arguments": [{"label": "ARG0", "spans": [[0, 1]]}]}'
    damaged = (KeyError, TypeError, ValueError)
    with errors_as(InputError, "a predicate cannot be read", damaged, remedy=remedy):
        predicates = content.get("predicates") or ()
        sentence.predicates = [_predicate(predicate, words, pos) for predicate in predicates]
    return sentence


def _predicate(content: Any, words: list[str], pos: list[str] | None) -> RolePredicate:
    index = content if type(content) is int else content["index"]
    if type(index) is not int or index not in range(len(words)):
        raise ValueError(f"the index {index!r} is not one of the tokens 0 to {len(words) - 1}")
    pos_of_predicate = pos[index] if pos else None
    if type(content) is int or content.get(ARGUMENTS) is None:
        return RolePredicate(index, None, pos_of_predicate)
    arguments = [
        RoleArgument(each["label"], tuple((start, end) for start, end in each["spans"]))
        for each in content[ARGUMENTS]
    ]
    for label, parts in arguments:
        if not isinstance(label, str) or not all(type(end) is int for end in chain(*parts)):
            raise ValueError(f"the label {label!r} is not a text, or a span has no whole numbers")
    return _with_itself(index, arguments, pos_of_predicate)


# He et al. 2017


def _read_he2017(path: Path, options: RoleOptions) -> Sentences:
    for line_number, line in nonblank_lines(path, options.encoding):
        yield value_or_error(path, line_number, _from_proposition, line_number, line)


def _from_proposition(line: int, text: str) -> RoleSentence:
    match = _PROPOSITION.fullmatch(text)
    index, words, tags = (int(match[1]), match[2].split(), match[3].split()) if match else (0, [], [])
    if index >= len(words) or (tags and len(tags) != len(words)):
        raise InputError(
            f"{text[:80]!r} is not a proposition",
            remedy="write the index of a word from 0, the words, |||, and a tag for each word or none",
        )
    try:
        spans = to_spans(tags, Scheme.IOB2)
    except TagError as error:
        raise InputError(error.problem) from error
    arguments = [RoleArgument(label, ((start, end),)) for start, end, label in spans]
    return RoleSentence(words, [line] * len(words), [RolePredicate(index, arguments if tags else None)])


# Detection


def _fit(name: str, sample: Sample) -> Fit:
    likeliest, fit = _likeliest(sample)
    return fit if name == likeliest else Fit.NO


def _likeliest(sample: Sample) -> tuple[str, Fit]:
    """Returns the name of the format that a file looks most like, by its first sentence, and its fit."""
    path, first = sample.files[0], sample.first_row
    if _JSON_OBJECT.match(first):
        is_labelled = '"tokens"' in first and '"predicates"' in first
        return "json_lines", Fit.CERTAIN if is_labelled else Fit.POSSIBLE if '"tokens"' in first else Fit.NO
    if _PROPOSITION.match(first):
        return "he2017", Fit.CERTAIN
    if counterpart(path, WORDS, PROPS) or counterpart(path, PROPS, WORDS):
        return "conll2005", Fit.CERTAIN
    if _has_dependencies(sample):
        return "dependencies", Fit.CERTAIN
    rows = first_sentence(enumerate(sample.all_lines))[1]
    cells = [split_cells(row, None) for row in rows]
    if {*map(len, cells)} == {1}:
        return "words", Fit.POSSIBLE
    layout, name = RoleColumns(CONLL_2012, None), "conll2012"
    if _names_of_2005(rows, None) is not None:
        name = "conll2005"
    elif not all(layout.fits(each) and each[2].isdecimal() for each in cells):
        return name, Fit.NO
    return name, Fit.CERTAIN if any("V*" in row for row in rows) else Fit.LIKELY


def _has_dependencies(sample: Sample) -> bool:
    """Tells whether a row has the column of predicates; sentences without any may lack it."""
    if names := columns_of_plus(sample.lines):
        return {_FORM, _SENSE} <= {*names} and not {_HEADS, _SPANS}.isdisjoint(names)
    rows = [line.split("\t") for line in sample.lines + sample.spread if not line.startswith("#")]
    is_document = any(DOCUMENT.match(line) for line in sample.lines)
    texts = any(cell.count(" ") > 4 for cells in rows for cell in cells[2:])  # as in SCWS
    is_numbered = bool(rows) and rows[0][0].partition("-")[0] == "1" and not (is_document or texts)
    return is_numbered and any(len(cells) > _predicate_column([cells]) for cells in rows)


FORMATS = tuple(
    Format(name, partial(_fit, name), read)
    for name, read in (
        ("conll2012", read_columns),
        ("conll2005", _read_conll2005),
        ("words", partial(read_columns, names=(WORD,))),
        ("json_lines", _read_json_lines),
        ("he2017", _read_he2017),
        ("dependencies", _read_dependencies),
    )
)
