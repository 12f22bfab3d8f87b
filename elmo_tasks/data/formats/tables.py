"""The columns of texts and of labels, and the classes, of records of an unknown kind."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from elmo_tasks.data.formats import CERTAIN, LIKELY, POSSIBLE, FileSample, Finding
from elmo_tasks.data.formats.records import (
    DelimitedLayout,
    class_names,
    is_rejected,
    read_records,
    read_rows,
    record_format,
)
from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.data.tokenization import tokenizer_of_texts

LABELS = (
    *("label", "gold_label", "labels", "class", "class index", "category", "target", "sentiment"),
    *("polarity", "topic", "intent", "quality", "rating", "stars", "overall", "v1"),
    *("entailment_judgment", "entailment_label"),
)
GOLD, UNDECIDED = "gold_label", "-"
"""The column of labels of SNLI and MultiNLI, and its value where annotators did not agree."""
TEXTS = (
    *("text", "sentence", "review", "tweet", "comment", "content", "body", "question", "description"),
    *("title", "v2"),
)
_PAIRS = (
    *(("sentence1", "sentence2"), ("premise", "hypothesis"), ("context", "hypothesis")),
    *(("sentence_a", "sentence_b"), ("text_a", "text_b"), ("claim", "evidence"), ("query", "passage")),
    *(("question", "sentence"), ("question", "passage"), ("question", "context")),
)
"""The names that published sets give to the texts of a pair, in small letters."""
_NAMES_OF_TEXTS = {*TEXTS, *chain(*_PAIRS)}
MAX_CLASSES = 200
_SHORT = 10
"""The characters that texts have on average, at least, in a column without the name of a text."""
_FIRST = 100
"""The rows by whose values a column is one of texts."""
_NUMBER = re.compile(r"-?\d*\.?\d+")
_FRACTION = re.compile(r"-?\d*\.0*[1-9]\d*")
_HEADER = 1000
"""The rows that tell whether the first is a header."""


class Table(NamedTuple):
    """Records of all files; `header` if they name their columns."""

    rows: Sequence[Mapping[str, Any]]
    header: bool = True
    class_names: Mapping[str, Sequence[str]] = {}
    problem: InputError | None = None
    """The error of a damaged record. The rows are those before it."""

    @property
    def columns(self) -> list[str]:
        return list(self.rows[0]) if self.rows else []

    def classes(self, column: str) -> list[str]:
        """Returns the different labels in a column, as a reader calls them, in order."""
        if column in self.class_names:
            return list(self.class_names[column])
        values = {as_label(value) for row in self.rows if (value := row.get(column)) not in (None, "")}
        if column == GOLD:
            values.discard(UNDECIDED)
        numbers = all(re.fullmatch(r"-?\d+", value) for value in values)
        return sorted(values, key=int if numbers else str)


def only_item(value: Any) -> Any:
    """Returns the item of a list of one, and any other value unchanged."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def as_label(value: Any) -> str:
    """Returns the label of a value: of a list of one, its only item."""
    value = only_item(value)
    return value.strip() if isinstance(value, str) else json.dumps(value, default=str)


def read_table(sample: FileSample) -> Table | None:
    """Returns the records of data without rejected ones; `None` for data of another kind."""
    rows: list[Mapping[str, Any]] = []
    columns, names, problem = None, {}, None
    try:
        format = record_format(sample.files[0], encoding=sample.encoding)
        if format == "delimited":
            if has_sentences(sample):
                return None
            columns = _columns_without_header(sample)
        elif format == "parquet":
            names = class_names(sample.files[0])
        for file in sample.files:
            records = read_records(file, layout=DelimitedLayout(columns), encoding=sample.encoding)
            rows.extend(values for record in records if not is_rejected(values := record.values))
    except InputError as error:
        problem = error
    if problem is None and (not rows or len(rows[0]) < 2):
        return None
    return Table(rows, columns is None, names, problem)


def find_table(sample: FileSample, table: Table) -> Finding:
    """Returns how a classifier's reader reads a table."""
    evidence = LIKELY if has_header(sample) else 0.0
    file = sample.files[0]
    if table.problem and len(table.rows) < _HEADER:
        return Finding(evidence, problem=table.problem)
    label = label_column(table)
    if label is None:
        return Finding(evidence, problem=InputError("no column has two classes or more", where=file))
    texts = text_columns(table, label)
    if not texts:
        what, remedy = f"no column has texts for the labels in {label!r}", f"name it {TEXTS[0]!r}"
        return Finding(evidence, problem=InputError(what, where=file, remedy=remedy))
    if 2 * len(table.classes(label)) > len(table.rows) > 4:
        evidence = POSSIBLE / 2
    else:
        named = [label.lower() in LABELS, not _NAMES_OF_TEXTS.isdisjoint(map(str.lower, texts))]
        evidence = (POSSIBLE, LIKELY, CERTAIN)[sum(named) if table.header else 0]
    problem = table.problem
    if label.lower() not in LABELS and (scores := scores_column(table)):
        problem = InputError(f"the column {scores!r} has scores, which are not classes", where=file)
    chosen = list(next(_pairs(texts), [_main_text(table, texts)]))
    keys: dict[str, Any] = {f"sentence{i}": name for i, name in enumerate(chosen, start=1)}
    keys |= {"label": label, "classes": table.classes(label)}
    keys |= tokenizer_keys(str(row.get(name) or "") for row in table.rows[:_HEADER] for name in chosen)
    return Finding(evidence, [keys if table.header else {"columns": table.columns, **keys}], problem)


def has_header(sample: FileSample) -> bool:
    """Tells whether the first line names columns of texts and of labels."""
    names = _first_cells(sample)
    return not names.isdisjoint(LABELS) and not names.isdisjoint(_NAMES_OF_TEXTS)


def names_texts(sample: FileSample) -> bool:
    """Tells whether the first line names columns, one of them of texts; numbers name none."""
    names = _first_cells(sample)
    return not names.isdisjoint(_NAMES_OF_TEXTS) and not any(re.fullmatch(r"[\d.]+", name) for name in names)


def _first_cells(sample: FileSample) -> set[str]:
    """Returns the cells of the first line, which may name columns, in small letters."""
    cells = re.split("[,;|\t]", sample.lines[0].lower()) if sample.lines else ()
    return {cell.strip('" ') for cell in cells}


def has_sentences(sample: FileSample) -> bool:
    """Tells whether empty lines separate the lines, as in files with a token a line."""
    if has_header(sample):
        return False
    lines = [line for _, line in read_lines(sample.files[0], encoding=sample.encoding)]
    return not any('"' in line for line in lines) and has_empty_lines(lines)


def has_empty_lines(lines: Iterable[str]) -> bool:
    """Tells whether there are empty lines between others."""
    return "\n\n" in "\n".join(map(str.strip, lines)).strip()


def _columns_without_header(sample: FileSample) -> list[str] | None:
    """Returns made-up names of the columns of a file without a header; `None` if it has one."""
    rows = islice(read_rows(sample.files[0], encoding=sample.encoding), _HEADER)
    first, *others = [[cell.strip() for cell in row] for _, row in rows] or [[]]
    while first and not first[-1]:
        first.pop()
    recurs = any(cell and cell == other for row in others for cell, other in zip(first, row, strict=False))
    has_values = any(re.fullmatch(r"-?[\d.]+", cell) or cell.count(" ") > 4 for cell in first)
    if not has_values and not recurs and len(set(first)) == len(first):
        return None
    return [f"column{i}" for i in range(1, len(first) + 1)]


def tokenizer_keys(texts: Iterable[str]) -> dict[str, Any]:
    """Returns the key `tokenizer` for texts in scripts without blanks between words."""
    tokenizer = tokenizer_of_texts(list(texts))
    return {} if tokenizer is None else {"tokenizer": tokenizer}


def label_column(table: Table) -> str | None:
    """Returns the column of the labels: one of their usual names, or with few values that recur."""

    def fits(name: str) -> bool:
        return 2 <= len(table.classes(name)) <= min(MAX_CLASSES, max(2, len(table.rows) - 1))

    possible = [name for name in table.columns if not any(_is_no_label(row.get(name)) for row in table.rows)]
    named = (name for each in LABELS for name in possible if name.lower() == each and fits(name))
    max_classes = max(2, len(table.rows) // 3)
    most = min(max_classes, len(table.rows) - 1)
    few = [name for name in possible if fits(name) and len(table.classes(name)) <= most]
    return next(named, min(few, key=lambda name: len(table.classes(name)), default=None))


def _is_no_label(value: Any) -> bool:
    """Tells whether a value is annotation of parts of a text, a sentence, or a number with a fraction."""
    if isinstance(value, list):
        return any(isinstance(part, dict | list) for part in value)
    return isinstance(value, dict) or str(value).count(" ") > 4 or _FRACTION.fullmatch(str(value)) is not None


def scores_column(table: Table) -> str | None:
    """Returns a column of numbers, some of them with fractions."""

    def has_scores(name: str) -> bool:
        values = [str(row.get(name)) for row in table.rows]
        return any(map(_FRACTION.fullmatch, values)) and all(map(_NUMBER.fullmatch, values))

    return next(filter(has_scores, table.columns), None)


def text_columns(table: Table, label: str | None = None) -> list[str]:
    """Returns the columns of texts, by their values, without the labels and without parses."""
    names = (name for name in table.columns if name != label and not name.endswith("_parse"))
    return [name for name in names if _is_text(table, name)]


def unread_texts(table: Table, read: Collection[str]) -> list[str]:
    """Returns the columns of texts that are not among those read, without numbers and codes of one word."""
    return [name for name in text_columns(table) if name not in read and _has_words(table, name)]


def _has_words(table: Table, name: str) -> bool:
    """Tells whether most values of a column are more than a number, code or address."""
    values = [str(row.get(name)) for row in table.rows]
    return 2 * sum(re.search(r"\s|[^\x00-\x7f]", value) is not None for value in values) > len(values)


def _is_text(table: Table, name: str) -> bool:
    values = [row.get(name) for row in table.rows[:_FIRST]]
    texts = [value for value in values if isinstance(value, str) and not re.fullmatch(r"[-\d._]*", value)]
    is_named = table.header and name.lower() in _NAMES_OF_TEXTS
    return 2 * len(texts) > len(values) and (is_named or sum(map(len, texts)) >= _SHORT * len(texts))


def _pairs(names: list[str]) -> Iterator[tuple[str, str]]:
    """Yields pairs of columns such as `sentence1` and `sentence2`."""
    named = {name.lower(): name for name in names}
    for first, second in _PAIRS:
        if first in named and second in named:
            yield named[first], named[second]
    for name in names:
        if "1" in name and (other := name.replace("1", "2")) in names:
            yield name, other


def _main_text(table: Table, names: list[str]) -> str:
    named = [name for each in TEXTS for name in names if name.lower() == each]
    sizes = {name: sum(len(str(row.get(name) or "")) for row in table.rows[:_FIRST]) for name in names}
    return named[0] if named else max(names, key=lambda name: (_has_words(table, name), sizes[name]))
