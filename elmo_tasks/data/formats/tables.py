"""How data of an unknown kind are read as texts, or pairs of texts, with a class each."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

from elmo_tasks.data.formats import CERTAIN, LIKELY, POSSIBLE, Finding
from elmo_tasks.data.formats.records import (
    ANSWER,
    DelimitedLayout,
    class_names,
    is_rejected,
    read_records,
    read_rows,
    record_format,
)
from elmo_tasks.data.formats.texts import FASTTEXT, is_fasttext, label_file, without_labels
from elmo_tasks.data.input_files import FileSample, InputError, nonblank_lines, shorten
from elmo_tasks.data.tokenization import tokenizer_of_texts

LABELS = (
    *("label", "gold_label", "labels", "class", "class index", "category", "target", "sentiment"),
    *("polarity", "topic", "intent", "quality", "rating", "stars", "overall", "v1", "cats"),
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
_WHOLE = {"text", "review", "tweet", "comment", "content", "body", "title", "description", "v2"}
"""The names of a text that is classified alone."""
_MOST_UNLIKE = 3
"""The texts of a pair have similar lengths, a title and its text do not."""
_MOST_WAYS = 3
"""The columns of labels that are tried."""
ENTAILMENT_LABELS = ("entailment", "neutral", "contradiction")
OTHER_NAMES = {label[0]: label for label in ENTAILMENT_LABELS} | {
    label.upper(): label for label in ENTAILMENT_LABELS
}
UNDECIDED_PAIRS = (UNDECIDED, "-1")
COLUMN_NAMES = {
    "premise": ("sentence1", "premise", "context", "sentence_a"),
    "hypothesis": ("sentence2", "hypothesis", "hypo", "sentence_b"),
    "label": ("gold_label", "label", "entailment_judgment", "entailment_label"),
}
"""The names that published sets of entailment give to a column, in small letters."""
_FIRST_NAMES = COLUMN_NAMES["premise"]
_MAX_CLASSES = 200
_SHORT = 10
"""The bytes that texts have on average, at least, in a column without the name of a text."""
_FIRST = 100
"""The rows by whose values a column is one of texts."""
_HEADER = 1000
"""The rows that tell whether the first is a header."""
_NUMBER = re.compile(r"-?\d*\.?\d+")
_FRACTION = re.compile(r"-?\d*\.0*[1-9]\d*")
_SPLITS = {"train", "training", "dev", "valid", "validation", "test", "trial", "part", "shard", "chunk"}
"""Parts of the names of files and folders that are not names of classes."""
_UNLABELLED = {"unsup"}
"""Folders without a class, as in IMDB."""
_ABOUT = re.compile("readme|licen[cs]e", re.IGNORECASE)
_TABLE_FILES = {".csv", ".tsv", ".json", ".jsonl", ".parquet"}
_LABEL = re.compile(r"[\w.+-]+")
_LABELS = re.compile(r"[\w.+-]+(?:[,;|]\s*[\w.+-]+)+")
_CODE = re.compile(r"\d+|[A-Z]+|[A-Z]+:\w+")
"""A label at the start of a line that is hardly the first word of a sentence."""


def find_texts(sample: FileSample) -> Finding:
    """Returns how a classifier's reader reads data: by paths, fastText's marks, columns, or first words."""
    if label_files := list(filter(None, map(label_file, sample.files))):
        lines = (line for file in label_files for _, line in nonblank_lines(file, sample.encoding))
        tokenizer = tokenizer_keys(sample.lines)
        keys = {"format": "label_files", "classes": sorted(set(map(str.strip, lines))), **tokenizer}
        return Finding(CERTAIN, [keys])
    if names := _classes_of_paths(sample):
        tokenizer = tokenizer_keys(sample.lines)
        has_texts = tokenizer or any(len(line.split()) > 1 for line in sample.lines)
        return Finding(LIKELY if has_texts else 0, [{"classes": sorted(names), **tokenizer}])
    if is_fasttext(sample.lines):
        lists = [[word for word in line.split() if word.startswith(FASTTEXT)] for line in _all_lines(sample)]
        if several := next((each for each in lists if len(each) > 1), None):
            return Finding(CERTAIN, problem=_several_labels(sample.files[0], " ".join(several)))
        classes = sorted({label.removeprefix(FASTTEXT) for each in lists for label in each})
        return Finding(CERTAIN, [{"classes": classes, **tokenizer_keys(map(without_labels, sample.lines))}])
    table = read_table(sample)
    of_table = _find_table(sample, table) if table else Finding(0)
    if of_table.candidates:
        return of_table
    if labels := _first_words(sample):
        evidence = LIKELY if all(map(_CODE.fullmatch, labels)) else POSSIBLE
        tokenizer = tokenizer_keys(line.partition(" ")[2] for line in sample.lines)
        return Finding(evidence, [{"format": "label_text", "classes": sorted(labels), **tokenizer}])
    return of_table


def find_pairs(sample: FileSample) -> Finding:
    """
    Returns how a reader of pairs reads data. The labels may be numbers, or others than SNLI's; the labels 0
    and 1 in RTE, WNLI and MRPC do not say what they mean.
    """
    table = read_table(sample)
    if table is None or table.problem:
        return Finding(0, problem=table.problem if table else None)
    if not table.header:
        label = next((name for name in table.columns if _are_entailment(table.classes[name])), None)
        texts = text_columns(table, label) if label else []
        if len(texts) < 2:
            return Finding(0)
        roles: dict[str, Any] = {"premise": texts[0], "hypothesis": texts[1], "label": label}
        return _find_roles(sample, table, roles, {"columns": table.columns, **roles})
    endings = [name.lower().removeprefix(first) for name in table.columns for first in _FIRST_NAMES]
    ways = []
    for ending in dict.fromkeys(["", *endings]):  # as in `sentence_A_En`, if there are several languages
        columns = ((name, known_column(name, table.columns, ending)) for name in COLUMN_NAMES)
        roles = {name: column for name, column in columns if column}
        if len(roles) == len(COLUMN_NAMES) or not ending:
            ways.append(_find_roles(sample, table, roles, dict(roles) if ending else {}))
    if ways[0].evidence or len(ways) == 1:
        return ways[0]
    return Finding(ways[1].evidence, [keys for way in ways[1:] for keys in way.candidates])


def _find_roles(
    sample: FileSample, table: "Table", roles: Mapping[str, Any], keys: dict[str, Any]
) -> Finding:
    label = roles.get("label")
    has_pair = {"premise", "hypothesis"} <= roles.keys()
    classes = {*table.classes[label]} - {*UNDECIDED_PAIRS} if label else set()
    of_snli = classes <= {*ENTAILMENT_LABELS, *OTHER_NAMES}
    is_named = of_snli or _are_entailment(classes) or "premise" in table.columns
    evidence = (CERTAIN if is_named else LIKELY) if label and has_pair else 0.0
    if classes == {"0", "1", "2"}:
        keys["label_names"] = {str(i): name for i, name in enumerate(ENTAILMENT_LABELS)}
    elif not of_snli and (roles.get("premise") == "premise" or _are_entailment(classes)):
        keys["classes"] = sorted(classes)
    elif not of_snli:
        problem = f"the labels {shorten(', '.join(sorted(classes)))} in the column {label!r} are not SNLI's"
        remedy = (
            'say what they mean, for RTE {"classes": ["entailment", "not_entailment"], '
            '"label_names": {"0": "entailment", "1": "not_entailment"}}'
        )
        error = InputError(problem, where=sample.files[0], remedy=remedy)
        return Finding(evidence, problem=error if has_pair else None)
    return Finding(evidence, [keys])


def known_column(name: str, columns: Iterable[str], ending: str = "") -> str | None:
    """Returns the column with one of the names of published sets of entailment, whatever its case."""
    names = [each + ending for each in COLUMN_NAMES[name]]
    exact = next((each for each in names if each in columns), None)
    return exact or next((column for each in names for column in columns if column.lower() == each), None)


def _are_entailment(classes: Iterable[str]) -> bool:
    return any("entail" in name for name in classes)


# Columns


@dataclass
class Table:
    """Records of all files; `header` if they name their columns."""

    rows: Sequence[Mapping[str, Any]]
    header: bool = True
    class_names: Mapping[str, list[str]] = field(default_factory=dict)
    problem: InputError | None = None
    """The error of a damaged record. The rows are those before it."""

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.rows[0]) if self.rows else []

    def values(self, column: str) -> Iterator[Any]:
        """Yields the values of a column that are not empty."""
        return (value for row in self.rows if (value := row.get(column)) not in (None, ""))

    @cached_property
    def different(self) -> dict[str, set[str]]:
        """The different values in each column, as a reader calls them."""
        return {column: set(map(as_label, self.values(column))) for column in self.columns}

    @cached_property
    def classes(self) -> dict[str, list[str]]:
        """The different labels in each column, in order."""
        classes = {}
        for column, values in self.different.items():
            if column == GOLD:
                values = values - {UNDECIDED}
            values = {value for value in values if not _is_no_label(value)} or values
            numbers = all(re.fullmatch(r"-?\d+", value) for value in values)
            classes[column] = self.class_names.get(column) or sorted(values, key=int if numbers else str)
        return classes


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
            values = (record.make(dict) for record in records)
            rows += (each for each in values if not isinstance(each, InputError))
        if any(not is_rejected(row) for row in rows) and not _is_binary(rows):
            rows = [row for row in rows if not is_rejected(row)]
    except InputError as error:
        problem = error
    if problem is None and (not rows or len(rows[0]) < 2):
        return None
    return Table(rows, columns is None, names, problem)


def _find_table(sample: FileSample, table: Table) -> Finding:
    evidence = LIKELY if has_header(sample) else POSSIBLE / 2
    file = sample.files[0]
    if table.problem and len(table.rows) < _HEADER:
        return Finding(evidence, problem=table.problem)
    chosen = [name for name in (sample.label, *sample.texts) if name is not None]
    if missing := [name for name in chosen if name not in table.columns]:
        known = ", ".join(table.columns)
        return Finding(evidence, problem=InputError(f"no column is {missing[0]!r}, only {known}", where=file))
    labels = [sample.label] if sample.label else _label_columns(table)
    problem = None if sample.label else _problem_of_labels(file, table, labels)
    has_texts = any(_has_words(table, name) for name in text_columns(table))
    if problem or not labels:
        what = "no column has two classes or more" if has_texts else "no column has texts"
        evidence = max(evidence, LIKELY if has_texts and problem else POSSIBLE if has_texts else 0.0)
        return Finding(evidence, problem=problem or InputError(what, where=file))
    candidates: list[dict[str, Any]] = []
    texts = list(sample.texts) or _texts_of(table, text_columns(table, labels[0]))
    if not texts or not (has_texts or sample.texts or _are_named(table, labels[0], texts) == 2):
        what, remedy = f"no column has texts for the labels in {labels[0]!r}", f"name it {TEXTS[0]!r}"
        return Finding(evidence, problem=InputError(what, where=file, remedy=remedy))
    evidence = (POSSIBLE, LIKELY, CERTAIN)[_are_named(table, labels[0], texts) if has_texts else 0]
    if 2 * len(table.classes[labels[0]]) > len(table.rows) > 4:
        evidence = POSSIBLE / 2
    for label in labels:
        texts = list(sample.texts) or _texts_of(table, text_columns(table, label))
        keys: dict[str, Any] = {} if table.header else {"columns": table.columns}
        keys |= {f"sentence{i}": name for i, name in enumerate(texts, start=1)}
        keys |= {"label": label, "classes": table.classes[label]}
        keys |= tokenizer_keys(str(row.get(name) or "") for row in table.rows[:_HEADER] for name in texts)
        candidates.append(keys)
    return Finding(evidence, candidates, table.problem)


def _are_named(table: Table, label: str, texts: Iterable[str]) -> int:
    has_name = not _NAMES_OF_TEXTS.isdisjoint(map(str.lower, texts))
    return is_label_name(label) + has_name if table.header else 0


def _problem_of_labels(file: Path, table: Table, labels: Sequence[str]) -> InputError | None:
    """Returns why labels are not the classes of texts: in one column of a usual name, or in all others."""
    is_named = len(labels) == 1 and (is_label_name(labels[0]) or labels[0] == ANSWER)
    for name in labels if is_named else table.columns:
        if several := _several_in(table, name):
            return _several_labels(file, f"{several} in the column {name!r}")
    if is_named:
        return None
    if scores := _scores_column(table):
        problem = f"the column {scores!r} has scores, which are not classes"
        return InputError(problem, where=file, remedy="--label names another column")
    same = [name for name in labels if table.classes[name] == table.classes[labels[0]]]
    if len(same) > 1 and len(table.classes[same[0]]) == 2:
        return _several_labels(file, f"the columns {shorten(', '.join(same))}")
    for name in filter(is_label_name, table.columns):
        if len(table.classes[name]) == 1 and not any(map(_is_no_label, map(only_item, table.values(name)))):
            return InputError(f"the column {name!r} has one class, {table.classes[name][0]!r}", where=file)
    return None


def _several_labels(file: Path, what: str) -> InputError:
    remedy = "choose a column with --label, or make a column for each label"
    return InputError(f"the texts have several labels, {what}", where=file, remedy=remedy)


def has_header(sample: FileSample) -> bool:
    """Tells whether the first line names columns of texts and of labels."""
    names = sample.first_cells
    return not names.isdisjoint(LABELS) and not names.isdisjoint(_NAMES_OF_TEXTS)


def names_texts(sample: FileSample) -> bool:
    """Tells whether the first line names columns, one of them of texts; numbers name none."""
    names = sample.first_cells
    return not names.isdisjoint(_NAMES_OF_TEXTS) and not any(re.fullmatch(r"[\d.]+", name) for name in names)


def has_sentences(sample: FileSample) -> bool:
    """Tells whether blank lines separate the lines, as in files with a token a line."""
    return sample.has_blank_lines and not has_header(sample) and not any('"' in line for line in sample.lines)


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


def is_label_name(column: str) -> bool:
    """Tells whether a column has a usual name of labels, or one with such a word, as `intent label`."""
    return not {column.lower(), *re.split(r"[\W_]+", column.lower())}.isdisjoint(LABELS)


def _label_columns(table: Table) -> list[str]:
    """Returns the columns that may be the labels: one of their usual names, or those with few values."""
    most = len(table.rows) - 1
    possible = [
        name
        for name in table.columns
        if 2 <= len(table.classes[name]) <= min(_MAX_CLASSES, max(2, most))
        and 10 * sum(map(_is_no_label, map(only_item, table.values(name)))) < len(table.rows) + 9
    ]
    if ANSWER in possible and _is_binary(table.rows):
        return [ANSWER]
    named = [name for each in LABELS for name in possible if name.lower() == each]
    named += [name for name in possible if is_label_name(name)]
    few = [name for name in possible if len(table.classes[name]) <= min(max(2, len(table.rows) // 3), most)]
    return named[:1] or sorted(few, key=lambda name: len(table.classes[name]))[:_MOST_WAYS]


def _is_binary(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Tells whether the annotators of Prodigy accepted or rejected one label for all texts."""
    are_judged = "reject" in {row.get(ANSWER) for row in rows}
    return are_judged and len({as_label(row.get("label")) for row in rows}) == 1


def _several_in(table: Table, name: str) -> Any:
    """Returns a value that is several labels, if there is one: a list, or classes with marks between."""
    for value in table.values(name):
        parts = value if isinstance(value, list) else []
        if isinstance(value, dict):
            parts = [key for key, score in value.items() if isinstance(score, int | float) and score > 0]
        elif isinstance(value, str) and _LABELS.fullmatch(value.strip()):
            parts = re.split(r"[,;|]\s*", value.strip())
            parts = [] if table.different[name].isdisjoint(parts) else parts
        if len(parts) > 1 and all(isinstance(each, str | int) for each in parts):
            return value
    return None


def _is_no_label(value: Any) -> bool:
    """Tells whether a value is annotation of parts of a text, a sentence, or a number with a fraction."""
    if isinstance(value, list):
        return any(isinstance(part, dict | list) for part in value)
    return isinstance(value, dict) or str(value).count(" ") > 4 or _FRACTION.fullmatch(str(value)) is not None


def _scores_column(table: Table) -> str | None:
    """Returns a column of numbers, some of them with fractions."""
    for name in table.columns:
        values = table.different[name]
        if any(map(_FRACTION.fullmatch, values)) and all(map(_NUMBER.fullmatch, values)):
            return name
    return None


def text_columns(table: Table, label: str | None = None) -> list[str]:
    """Returns the columns of texts, by their values, without the labels and without parses."""
    names = (name for name in table.columns if name != label and not name.endswith("_parse"))
    return [name for name in names if _is_text(table, name)]


def unread_texts(table: Table, read: Collection[str]) -> list[str]:
    """Returns the columns of texts that are not among those read, without numbers and codes of one word."""
    return [name for name in text_columns(table) if name not in read and _has_words(table, name)]


def _has_words(table: Table, name: str) -> bool:
    """Tells whether most values of a column are more than a number, code or address."""
    values = [str(row.get(name)) for row in table.rows[:_HEADER]]
    return 2 * sum(re.search(r"\s|[^\x00-\x7f]", value) is not None for value in values) > len(values)


def _is_text(table: Table, name: str) -> bool:
    values = [row.get(name) for row in table.rows[:_FIRST]]
    texts = [value for value in values if isinstance(value, str) and not re.fullmatch(r"[-\d._]*", value)]
    is_named = table.header and name.lower() in _NAMES_OF_TEXTS
    return 2 * len(texts) > len(values) and (
        is_named or sum(len(text.encode()) for text in texts) >= _SHORT * len(texts)
    )


def _texts_of(table: Table, names: list[str]) -> list[str]:
    """Returns the columns of a pair, by their names or since two columns have similar texts, or else one."""
    if pair := next(_pairs(names), None):
        return list(pair)
    worded = [name for name in names if _has_words(table, name)]
    if len(worded) == 2 and _WHOLE.isdisjoint(map(str.lower, worded)):
        texts = [list(map(str, table.values(name))) for name in worded]
        short, long = sorted(len(" ".join(each)) for each in texts)
        are_full = all(10 * len(each) > 9 * len(table.rows) for each in texts)
        are_sentences = all(" ".join(each).count(" ") > 2 * len(each) for each in texts)
        if (
            are_full
            and long <= _MOST_UNLIKE * short
            and (are_sentences or not any(map(str.isascii, chain(*texts))))
        ):
            return worded
    return [_main_text(table, names)] if names else []


def _pairs(names: list[str]) -> Iterator[tuple[str, str]]:
    """Yields pairs of columns such as `sentence1` and `sentence2`."""
    named = {name.lower(): name for name in names}
    for first, second in _PAIRS:
        if first in named and second in named:
            yield named[first], named[second]
    for name in names:
        for first, second in ("12", "AB", "ab"):
            if (
                other := re.sub(rf"(?<![a-zA-Z]){first}(?![a-zA-Z])", second, name)
            ) != name and other in names:
                yield name, other


def _main_text(table: Table, names: list[str]) -> str:
    named = [name for each in TEXTS for name in names if name.lower() == each]
    sizes = {name: sum(len(str(row.get(name) or "")) for row in table.rows[:_FIRST]) for name in names}
    return named[0] if named else max(names, key=lambda name: (_has_words(table, name), sizes[name]))


# Paths and first words


def _classes_of_paths(sample: FileSample) -> set[str]:
    """Returns the names of folders, or else of files, if they may be classes."""
    folders = {file.parent for file in sample.files}
    innermost = folders.difference(*(folder.parents for folder in folders))
    files = [file for file in sample.files if file.parent in innermost and not _ABOUT.match(file.name)]
    if len(files) < 2 or any(file.suffix in _TABLE_FILES for file in files):
        return set()
    for names in ({folder.name for folder in innermost} - _UNLABELLED, _names_of_files(files, sample)):
        parts = {part for name in names for part in re.split(r"[\W_]", name)}
        if 1 < len(names) <= _MAX_CLASSES and not parts & _SPLITS:
            return names
    return set()


def _names_of_files(files: Sequence[Path], sample: FileSample) -> set[str]:
    names = {file.stem for file in files}
    if len(names) < len(files):
        names = {file.suffix[1:] for file in files}
    return set() if "txt" in names or has_sentences(sample) or _has_tabs(sample) else names


def _has_tabs(sample: FileSample) -> bool:
    return bool(sample.lines) and all("\t" in line for line in sample.lines)


def _all_lines(sample: FileSample) -> Iterator[str]:
    for file in sample.files:
        yield from (line for _, line in nonblank_lines(file, sample.encoding))


def _first_words(sample: FileSample) -> set[str]:
    """Returns the first words of the lines, before a colon, if they may be labels: two or more, and few."""
    if not sample.lines or has_sentences(sample) or _has_tabs(sample):
        return set()
    if len({file.suffix for file in sample.files}) > 1:
        return set()
    words = [line.split(maxsplit=1) for line in _all_lines(sample)]
    labels = {each[0].partition(":")[0] for each in words}
    is_few = 2 <= len(labels) <= min(len(words) // 2, _MAX_CLASSES)
    have_texts = len(words) < 1.3 * sum(len(each) == 2 for each in words)
    return labels if is_few and have_texts and all(map(_LABEL.fullmatch, labels)) else set()
