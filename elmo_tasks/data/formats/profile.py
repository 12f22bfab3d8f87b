"""What the columns of a table hold: texts, labels, numbers, tags, lists, ids or dates."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Literal

from elmo_tasks.data.formats.delimited import (
    AUTO,
    delimited_lines,
    find_dialect,
    read_delimited,
    split_lines,
    split_rows,
    without_separator,
)
from elmo_tasks.data.formats.records import ANSWER, is_rejected
from elmo_tasks.data.formats.sample import TABLE_FILES, Sample
from elmo_tasks.data.input_files import InputError, shorten

Kind = Literal["empty", "constant", "label", "labels", "text", "word", "number", "tags", "list", "id", "date"]
MAX_CLASSES = 200
NAMES_OF_LABELS = (
    *("label", "gold label", "labels", "class", "class index", "category", "target", "sentiment"),
    *("polarity", "topic", "intent", "quality", "rating", "stars", "overall", "v1", "cats"),
    *("entailment judgment", "entailment label"),
)
"""The names that published sets give to their labels, the most usual first, as `normal` writes them."""
NAMES_OF_TEXTS = (
    *("text", "sentence", "review", "tweet", "comment", "content", "body", "question", "description"),
    *("title", "v2", "utterance", "query", "phrase", "message", "sms"),
)
NAMES_OF_PAIRS = (
    *(("sentence1", "sentence2"), ("premise", "hypothesis"), ("context", "hypothesis")),
    *(("sentence a", "sentence b"), ("text a", "text b"), ("claim", "evidence"), ("query", "passage")),
    *(("tweet", "reply"), ("post", "reply"), ("headline", "body")),
    *(("question", "sentence"), ("question", "passage"), ("question", "context"), ("question", "answer")),
    *(("context", "statement"), ("context", "utterance")),
)
CONTRASTS = (("1", "2"), ("a", "b"), ("first", "second"), ("left", "right"), ("more", "less"), ("q", "a"))
"""The parts in which the names of a pair differ."""
_KNOWN = {*NAMES_OF_LABELS, *NAMES_OF_TEXTS, *chain(*NAMES_OF_PAIRS)}
"""Names of columns that tell a header."""
_REGULAR = 0.8
"""The share of the rows of a table that have the same number of cells, at least."""
_MOST = 0.95
"""The share of the values that a kind needs: some may be damaged."""
_SHORT_LABEL = 5
"""The words of a label on average, at most."""
_LONG_NAME = 5
"""The words of the name of a column, at most."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Characters of scripts without blanks between words; two make a word."""
_NUMBER = re.compile(r"[-+]?(\d+|\d{1,3}(,\d{3})+)?(\.\d*)?(?<=[\d.])(e[-+]?\d+)?%?", re.IGNORECASE)
_WHOLE = re.compile(r"-?\d+(\.0+)?")
_DATE = re.compile(
    r"\d{4}[-./] ?\d\d?[-./] ?\d\d?\b.{,20}|\d\d?[-./]\d\d?[-./]\d{2,4}( .{,20})?|\d\d?:\d\d(:\d\d)?.{,6}"
    r"|(19|20)\d\d[01]\d[0-3]\d|\d\d?-[A-Z][a-z]{2}-\d{2,4}"
    r"|(\w+,? )?[A-Z][a-z]{2,8}\.? \d\d?,?( .{,20})? \d{4}|(\w{3}, )?\d\d? [A-Z][a-z]{2,8} \d{4}.{,20}"
)
_LIST = re.compile(
    r"\s*(\[.*\]|\{.*\}|((None|nan|\d+[:-]\d+)([|,;]\s*|$))+|[\d.,-]+(\s+[\d.,-]+)+)\s*", re.DOTALL
)
"""Items in brackets, ranges of numbers, or several numbers."""
ENTITY_TAG = re.compile(r"[Oo]|[BIESLUMbieslum]-\S+")
_POS = re.compile(r"[A-Z]{1,6}[$:]?|[.,:;!?()\"'`$#-]+|-[LR]RB-")
_DIGIT = re.compile(r"\d")
_CODES = re.compile(r"[\w.+-]+(?:\s*[,;|]\s*[\w.+-]+)*")
_SENTENCE = re.compile(r"\w\W*\s.*[.?!\u3002\uff1f\uff01]\W*$", re.DOTALL)
_MARKS = re.compile(r"\s*[,;|]\s*")
_BETWEEN_CELLS = re.compile(r"\t|[,;|](?! )")


@dataclass(frozen=True, eq=False)
class Column:
    """The values of a column in a sample, without empty ones."""

    name: str
    values: Sequence[Any]
    num_rows: int

    @cached_property
    def plain_name(self) -> str:
        """The name as `normal` writes it."""
        return normal(self.name)

    @cached_property
    def strings(self) -> list[str]:
        """The values as labels are written."""
        return list(map(as_label, self.values))

    @cached_property
    def counts(self) -> Counter[str]:
        """The different values, as labels, and how often they occur."""
        return Counter(self.strings)

    @cached_property
    def num_words(self) -> float:
        """The words of a value on average."""
        return sum(map(num_words, self.strings)) / max(1, len(self.strings))

    @cached_property
    def has_words(self) -> bool:
        """Whether most values are more than a number, a code or an address."""
        return 2 * sum(re.search(r"\s|[^\x00-\x7f]", value) is not None for value in self.strings) > len(
            self.strings
        )

    @cached_property
    def kind(self) -> Kind:
        """What the column holds: the first of these lines that is true."""
        values, strings = self.values, self.strings
        if not values:
            return "empty"
        if self._are_lists_of_labels:
            return "labels"
        if _most(isinstance(only_item(value), list | dict) for value in values) or (
            self.has_words and _most(isinstance(value, list) for value in values)
        ):
            return "list"
        if _most(map(_LIST.fullmatch, strings)):
            return "list"
        recurs = _recur(self.counts)
        if _most(map(_DATE.fullmatch, strings)):
            return "date"
        if self.num_words > 1 and _most(map(_are_tags, strings)):
            return "tags"
        has_sentences = _most(map(_SENTENCE.search, strings))
        if self.num_rows > 1 == len(self.counts) and not has_sentences:
            return "constant"
        if _most(map(_NUMBER.fullmatch, strings)):
            return "label" if recurs and all(map(_WHOLE.fullmatch, strings)) else "number"
        if self._are_codes_of_labels:
            return "labels"
        is_seldom = 10 * len(self.counts) <= len(values)
        if recurs and not has_sentences and (is_seldom or self.num_words <= _SHORT_LABEL):
            return "label"
        if self.has_words:
            return "text"
        return "id" if _most(map(_DIGIT.search, strings)) else "word"

    @property
    def _are_lists_of_labels(self) -> bool:
        lists = [value for value in self.values if isinstance(value, list)]
        parts = Counter(part for value in lists for part in value if isinstance(part, str | int))
        return any(len(value) != 1 for value in lists) and _recur(parts)

    @property
    def _are_codes_of_labels(self) -> bool:
        """Whether each value is one code or several, which recur, such as `1,3`, and also stand alone."""
        if not _most(map(_CODES.fullmatch, self.strings)):
            return False
        split = [_MARKS.split(value) for value in self.strings]
        alone = {parts[0] for parts in split if len(parts) == 1}
        together = set(chain.from_iterable(parts for parts in split if len(parts) > 1))
        return not alone.isdisjoint(together) and _recur(Counter(chain.from_iterable(split)))

    def shown(self) -> str:
        """Returns the name, the number of different values, and three of them."""
        examples = ", ".join(shorten(value, 30) for value, _ in self.counts.most_common(3))
        return f"{self.name} ({len(self.counts)} different: {examples})"


def _most(conditions: Iterator[Any] | Any) -> bool:
    results = [bool(each) for each in conditions]
    return sum(results) >= _MOST * len(results)


def _recur(counts: Counter[Any]) -> bool:
    """Tells whether there are two values or more, and few, most of which recur."""
    recurring = sum(count for count in counts.values() if count > 1)
    return 2 <= len(counts) <= MAX_CLASSES and 2 * recurring >= counts.total()


def _are_tags(value: str) -> bool:
    words = value.split()
    return all(map(ENTITY_TAG.fullmatch, words)) or all(map(_POS.fullmatch, words))


def num_words(text: str) -> float:
    """Returns the number of words of a text; in scripts without blanks two characters are a word."""
    unspaced = len(_UNSPACED.findall(text))
    return len(text.split()) + (unspaced / 2 if unspaced > 1 else 0)


def only_item(value: Any) -> Any:
    """Returns the item of a list of one, spaCy's only category that is true, and other values unchanged."""
    if isinstance(value, dict):
        true = [name for name, score in value.items() if isinstance(score, int | float) and score > 0]
        return true[0] if len(true) == 1 else value
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def as_label(value: Any) -> str:
    """Returns the label of a value: of a list of one, its only item."""
    value = only_item(value)
    return value.strip() if isinstance(value, str) else json.dumps(value, default=str)


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of a sample by their columns."""

    rows: Sequence[Mapping[str, Any]]
    has_header: bool = True
    problem: InputError | None = None
    """The error of the first damaged row."""

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The columns by their names."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return {
            name: Column(
                name, [row[name] for row in self.rows if row.get(name) not in (None, "")], len(self.rows)
            )
            for name in names
        }

    def of_kind(self, *kinds: Kind) -> list[Column]:
        return [column for column in self.columns.values() if column.kind in kinds]


@lru_cache(maxsize=1)
def read_table(sample: Sample) -> Table | None:
    """Returns the table of a sample, without the records that annotators rejected; `None` if it is none."""
    if sample.has_records:
        label = ANSWER if is_binary(sample.records) else None
        records = [record for record in sample.records if not is_rejected(record, label)] or sample.records
        return Table(records, problem=sample.problem) if records or sample.problem else None
    if not sample.lines or _has_sentences(sample):
        return None
    if problem := _problem_of_names(sample):
        return Table([], problem=problem)
    lines = without_separator(list(enumerate(sample.all_lines, start=1)))
    dialect = find_dialect(lines, AUTO)
    file = sample.files[0]
    rows: list[list[str] | InputError] = [row for _, row in split_rows(file, lines, dialect)]
    if sample.spread and 2 * len(rows) < len(sample.lines):  # cells with line breaks: no line shows a row
        rows = [row for _, row in split_rows(file, delimited_lines(file, sample.encoding), dialect)]
    elif sample.spread:
        del rows[-1]  # it may continue
        rows += split_lines(sample.spread, dialect)
    problem = next((row for row in rows if isinstance(row, InputError)), None)
    cells = [[cell.strip() for cell in row] for row in rows if not isinstance(row, InputError)]
    (width, number), *_ = Counter(map(len, cells)).most_common(1) or [(0, 0)]
    first = cells[0] if cells else []
    mark = dialect.delimiter
    head = "\n".join(sample.lines)
    is_prose = mark != "\t" and '"' not in head and 2 * head.count(f"{mark} ") > head.count(mark)
    is_regular = width > 1 and len(rows) > 1 and number >= _REGULAR * len(rows) and not is_prose
    is_named = file.suffix in TABLE_FILES or not _KNOWN.isdisjoint(map(normal, first))
    if not (is_regular or (is_named and width)):
        return None
    numbered = [f"column{i}" for i in range(1, width + 1)]
    table = Table(_by_name(numbered, cells[1:]), False, problem)
    if not {*sample.texts, sample.label}.isdisjoint(first) or _has_header(first, table):
        named = _by_name(first, cells[1:])
        if 2 * len(named) < len(cells) - 1:
            read = (record.make(dict) for record in read_delimited(file, encoding=sample.encoding))
            problem = next((row for row in read if isinstance(row, InputError)), None)
            if problem and [row[0].strip('"') for row in cells[1:3]] == ["1", "2"]:
                problem.remedy = "give the column of R's row names a name: write.table(..., col.names = NA)"
            named = []
        return Table(named, True, problem)
    return Table(_by_name(numbered, cells), False, problem)


def _by_name(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """Returns the cells of rows that have as many as there are names, and no others."""
    width = max((index for index, name in enumerate(names, start=1) if name), default=0)
    return [
        {name: cell for name, cell in zip(names, row, strict=False) if name}
        for row in rows
        if width <= len(row) and not any(row[len(names) :])
    ]


def _problem_of_names(sample: Sample) -> InputError | None:
    """Returns the error of a table whose names of columns stand after a comment, or in quotes together."""
    first = sample.lines[0].strip()
    what, remedy = "the names of the columns stand after a comment", "delete the lines before them"
    line = next(iter(sample.lines[1:]), "") if first.startswith("#") else ""
    if re.fullmatch(r'"[^"]+"', first):
        what, remedy, line = "whole rows are in quotes", "save it again as csv, from separate columns", first
    known = {normal(cell) for cell in _BETWEEN_CELLS.split(line)} & _KNOWN
    return InputError(what, where=sample.files[0], line=1, remedy=remedy) if len(known) > 1 else None


def _has_sentences(sample: Sample) -> bool:
    """Tells whether blank lines separate sentences with a token a line, and not the rows of a table."""
    names = set(map(normal, sample.first_cells))
    has_names = not names.isdisjoint(NAMES_OF_LABELS) and not names.isdisjoint(NAMES_OF_TEXTS)
    if not sample.has_blank_lines or has_names or any('"' in line for line in sample.lines):
        return False
    rows = [_BETWEEN_CELLS.split(line.strip()) for line in sample.lines]
    return 2 * sum(len(row) > 1 and max(map(num_words, row)) > 2 for row in rows) < len(rows)


def _has_header(first: Sequence[str], table: Table) -> bool:
    """Tells whether the first row names the columns below: the first of these lines that is true says it."""
    names = list(filter(None, first))
    if names == [str(number) for number in range(len(names))] and len(first) > 1:
        return True  # pandas numbers columns without names
    if any(num_words(name) > _LONG_NAME for name in names):
        return False
    columns = zip(first, table.columns.values(), strict=False)
    filled = [(name, column) for name, column in columns if name and column.values]
    if any(normal(name) in _KNOWN and name not in column.counts for name, column in filled):
        return True
    if len(set(names)) < len(names) or any(map(_NUMBER.fullmatch, names)):
        return False
    if any(not _is_like(name, column) for name, column in filled):
        return True
    return not any(name in column.counts or num_words(name) > 3 for name, column in filled)


def _is_like(cell: str, column: Column) -> bool:
    """Tells whether the first cell of a column may be one of its values, and not its name."""
    if column.kind == "text":
        return num_words(cell) > max(1, column.num_words / 4) or column.num_words < 3
    return _DIGIT.search(cell) is not None or not all(map(_DIGIT.search, column.strings))


def normal(name: str) -> str:
    """Returns the name of a column in small letters, with blanks between its words."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.strip("\ufeff\"' "))
    return re.sub(r"[\W_]+", " ", words.lower()).strip()


def is_binary(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Tells whether the annotators of Prodigy accepted or rejected one label for all texts."""
    are_judged = "reject" in {as_label(row.get(ANSWER)) for row in rows}
    return are_judged and len({as_label(row.get("label")) for row in rows}) == 1
