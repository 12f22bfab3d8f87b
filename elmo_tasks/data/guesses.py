"""The columns of texts and of labels, and the classes, of data that nothing is known of."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from elmo_tasks.data.formats.base import FileSample
from elmo_tasks.data.formats.delimited import DelimitedLayout, read_rows
from elmo_tasks.data.formats.records import class_names, is_rejected, read_records, record_format
from elmo_tasks.data.formats.texts import FASTTEXT
from elmo_tasks.data.input_files import InputError, nonblank_lines, read_lines
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
"""The characters that texts have on average, at least, in a column of another name than those of texts."""
_SAMPLE = 1000
"""The rows that tell whether the first is a header."""
_PARTS = {"train", "training", "dev", "valid", "validation", "test", "trial", "part", "shard", "chunk"}
_UNLABELLED = {"unsup"}
"""Folders beside those of classes, as in IMDB."""
_ABOUT = re.compile("readme|licen[cs]e", re.IGNORECASE)
_RECORDS = {".csv", ".tsv", ".json", ".jsonl", ".parquet"}


class Table(NamedTuple):
    """Records of all files; `header` if they name their columns."""

    rows: Sequence[Mapping[str, Any]]
    header: bool
    class_names: Mapping[str, Sequence[str]]

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
    """Returns the item of a list of one, and any other value as it is."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def as_label(value: Any) -> str:
    """Returns the label of a value: of a list of one, its only item."""
    value = only_item(value)
    return value.strip() if isinstance(value, str) else json.dumps(value, default=str)


def read_table(sample: FileSample) -> Table | None:
    """
    Returns the records of data without rejected ones, or `None` if they are none. `InputError`: one of them
    is damaged.
    """
    format = record_format(sample.files[0], encoding=sample.encoding)
    if format == "delimited" and _has_sentences(sample):
        return None
    columns = _columns_without_header(sample) if format == "delimited" else None
    rows = [
        record.values
        for file in sample.files
        for record in read_records(file, layout=DelimitedLayout(columns), encoding=sample.encoding)
        if not is_rejected(record.values)
    ]
    names = class_names(sample.files[0]) if format == "parquet" else {}
    return Table(rows, columns is None, names) if rows and len(rows[0]) > 1 else None


def has_header(sample: FileSample) -> bool:
    """Tells whether the first line names columns of texts and of labels."""
    names = _first_cells(sample)
    return not names.isdisjoint(LABELS) and not names.isdisjoint(TEXTS)


def names_texts(sample: FileSample) -> bool:
    """Tells whether the first line names columns, one of them of texts; numbers name none."""
    names = _first_cells(sample)
    return not names.isdisjoint(_NAMES_OF_TEXTS) and not any(re.fullmatch(r"[\d.]+", name) for name in names)


def _first_cells(sample: FileSample) -> set[str]:
    cells = re.split("[,;|\t]", sample.lines[0].lower()) if sample.lines else ()
    return {cell.strip('" ') for cell in cells}


def _has_sentences(sample: FileSample) -> bool:
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
    rows = islice(read_rows(sample.files[0], encoding=sample.encoding), _SAMPLE)
    first, *others = [[cell.strip() for cell in row] for _, row in rows] or [[]]
    while first and not first[-1]:
        first.pop()
    recurs = any(cell and cell == other for row in others for cell, other in zip(first, row, strict=False))
    has_values = any(re.fullmatch(r"-?[\d.]+", cell) or cell.count(" ") > 4 for cell in first)
    if not has_values and not recurs and len(set(first)) == len(first):
        return None
    return [f"column{i}" for i in range(1, len(first) + 1)]


def classification_keys(sample: FileSample) -> Iterator[dict[str, Any]]:
    """
    Yields the keys of a classifier's reader for data.

    # Raises
    `InputError`: a record is damaged, or a table has labels and no texts.
    """
    if names := _class_names_of_paths(sample):
        yield {"classes": sorted(names), **_tokenizer_keys(sample.lines)}
        return
    if sample.lines and all(line.startswith(FASTTEXT) for line in sample.lines):
        labels = {word for line in _all_lines(sample) for word in line.split() if word.startswith(FASTTEXT)}
        classes = sorted(label.removeprefix(FASTTEXT) for label in labels)
        yield {"classes": classes, **_tokenizer_keys(map(_without_labels, sample.lines))}
        return
    try:
        table = read_table(sample)
    except InputError:
        if _has_tabs(sample) or not (labels := _first_words(sample)):
            raise
        yield _label_text_keys(sample, labels)
        return
    if table is not None and (keys := _table_keys(table)):
        yield keys
    elif not (table and table.header and _has_tabs(sample)) and (labels := _first_words(sample)):
        yield _label_text_keys(sample, labels)
    elif table and (label := _label_column(table)):
        found = f"no column of texts beside the labels in {label!r}"
        expected = f"one named {TEXTS[0]}, or of texts of {_SHORT} characters or more"
        raise InputError.at(sample.files[0], found=found, expected=expected)


def _label_text_keys(sample: FileSample, labels: set[str]) -> dict[str, Any]:
    texts = (line.split(maxsplit=1)[1] for line in sample.lines)
    return {"format": "label_text", "classes": sorted(labels), **_tokenizer_keys(texts)}


def _tokenizer_keys(texts: Iterable[str]) -> dict[str, Any]:
    tokenizer = tokenizer_of_texts(list(texts))
    return {} if tokenizer is None else {"tokenizer": tokenizer}


def _without_labels(line: str) -> str:
    return " ".join(word for word in line.split() if not word.startswith(FASTTEXT))


def _class_names_of_paths(sample: FileSample) -> set[str]:
    """Returns the names of folders, or else of files, if they may be those of classes."""
    folders = {file.parent for file in sample.files}
    innermost = folders.difference(*(folder.parents for folder in folders))
    files = [file for file in sample.files if file.parent in innermost and not _ABOUT.match(file.name)]
    if len(files) < 2 or any(file.suffix in _RECORDS for file in files):
        return set()
    for names in ({folder.name for folder in innermost} - _UNLABELLED, _names_of_files(files, sample)):
        parts = {part for name in names for part in re.split(r"[\W_]", name)}
        if 1 < len(names) <= MAX_CLASSES and not parts & _PARTS:
            return names
    return set()


def _names_of_files(files: Sequence[Path], sample: FileSample) -> set[str]:
    if _has_sentences(sample) or _has_tabs(sample):
        return set()
    names = {file.stem for file in files}
    if len(names) < len(files):
        names = {file.suffix[1:] for file in files}
    return set() if "txt" in names else names


def _has_tabs(sample: FileSample) -> bool:
    """Tells whether the lines are rows of a table."""
    return bool(sample.lines) and all("\t" in line for line in sample.lines)


def _all_lines(sample: FileSample) -> Iterator[str]:
    for file in sample.files:
        yield from (line for _, line in nonblank_lines(file, sample.encoding))


def _first_words(sample: FileSample) -> set[str]:
    """Returns the first words of the lines, before a colon, if they may be labels: two or more, and few."""
    if not sample.lines or _has_sentences(sample) or len({file.suffix for file in sample.files}) > 1:
        return set()
    words = [line.split(maxsplit=1) for line in _all_lines(sample)]
    labels = {each[0].partition(":")[0] for each in words}
    few = all(re.fullmatch(r"[\w.+-]+", label) for label in labels) and 2 <= len(labels) <= min(
        len(words) // 2, MAX_CLASSES
    )
    return labels if few and all(len(each) == 2 for each in words) else set()


def _table_keys(table: Table) -> dict[str, Any]:
    label = _label_column(table)
    if label is None:
        return {}
    texts = text_columns(table, label)
    pair = next(_pairs(texts), None)
    if not texts:
        return {}
    chosen = list(pair) if pair else [_main_text(table, texts)]
    keys: dict[str, Any] = {f"sentence{i}": name for i, name in enumerate(chosen, start=1)}
    keys |= {"label": label, "classes": table.classes(label)}
    keys |= _tokenizer_keys(str(row.get(name) or "") for row in table.rows[:_SAMPLE] for name in chosen)
    return keys if table.header else {"columns": table.columns, **keys}


def _label_column(table: Table) -> str | None:
    def fits(name: str) -> bool:
        if any(_is_nested(row.get(name)) for row in table.rows):
            return False
        return 2 <= len(table.classes(name)) <= min(MAX_CLASSES, max(2, len(table.rows) - 1))

    named = [name for each in LABELS for name in table.columns if name.lower() == each and fits(name)]
    if named:
        return named[0]
    max_classes = max(2, len(table.rows) // 3)
    few = [name for name in table.columns if fits(name) and len(table.classes(name)) <= max_classes]
    return min(few, key=lambda name: len(table.classes(name)), default=None)


def _is_nested(value: Any) -> bool:
    """Tells whether a value is an object, or a list of objects or lists: annotations of parts of a text."""
    if isinstance(value, list):
        return any(isinstance(part, dict | list) for part in value)
    return isinstance(value, dict)


def text_columns(table: Table, label: str | None = None) -> list[str]:
    """Returns the columns of texts, by their values, without that of the labels, and without parses."""
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
    values = [row.get(name) for row in table.rows[:100]]
    texts = [value for value in values if isinstance(value, str) and not re.fullmatch(r"[-\d.]*", value)]
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
    sizes = {name: sum(len(str(row.get(name) or "")) for row in table.rows[:100]) for name in names}
    return named[0] if named else max(names, key=lambda name: (_has_words(table, name), sizes[name]))
