"""
Texts with a class each: tables and JSON, lines of TREC and fastText, and a folder or a file for each class.

The values of a record have the names of its columns; in a format without columns, `text` and `label`.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from elmo_tasks.data.formats import CERTAIN, LIKELY, POSSIBLE, FileSample, Finding
from elmo_tasks.data.formats.records import AUTO, DelimitedLayout, RecordFormat, is_parquet, read_records
from elmo_tasks.data.formats.tables import (
    MAX_CLASSES,
    find_table,
    has_sentences,
    read_table,
    tokenizer_keys,
)
from elmo_tasks.data.input_files import InputError, Record, nonblank_lines, read_lines

FASTTEXT = "__label__"
CLASS_PATHS = ("class_folders", "class_files")
"""The formats with the class in the name of the folder or the file."""
DELIMITER_OF_FORMAT = {"csv": ",", "tsv": "\t"}
_LINES = 20
_SPLITS = {"train", "training", "dev", "valid", "validation", "test", "trial", "part", "shard", "chunk"}
"""Parts of the names of files and folders that are not names of classes."""
_UNLABELLED = {"unsup"}
"""Folders without a class, as in IMDB."""
_ABOUT = re.compile("readme|licen[cs]e", re.IGNORECASE)
_TABLE_FILES = {".csv", ".tsv", ".json", ".jsonl", ".parquet"}
_LABEL = re.compile(r"[\w.+-]+")
_CODE = re.compile(r"\d+|[A-Z]+|[A-Z]+:\w+")
"""A label at the start of a line that is hardly the first word of a sentence."""


class TextOptions(NamedTuple):
    """The keys of a reader that formats need."""

    names: Collection[str] = ()
    """The labels in the files."""
    layout: DelimitedLayout = AUTO
    encoding: str = "utf-8"


def _read_table(path: Path, options: TextOptions, *, format: RecordFormat) -> Iterator[Record]:
    return read_records(path, format, options.layout, encoding=options.encoding)


def _read_text(path: Path, options: TextOptions) -> Iterator[Record]:
    """Yields a text for each line that is not blank."""
    lines = nonblank_lines(path, options.encoding)
    return (Record(path, line_number, {"text": line}) for line_number, line in lines)


def _read_document(path: Path, options: TextOptions) -> Iterator[Record]:
    """Yields one text, the whole file; none if it is blank."""
    text = "\n".join(line for _, line in read_lines(path, encoding=options.encoding))
    if text.strip():
        yield Record(path, 1, {"text": text})


def _read_label_text(path: Path, options: TextOptions) -> Iterator[Record]:
    """
    Yields the first word of each line as the label, and the rest as the text. If only the part of the label
    before a colon is a known label, as in `DESC:manner`, it is the label.
    """
    for line_number, line in nonblank_lines(path, options.encoding):
        label, *text = line.split(maxsplit=1)
        if text:
            yield Record(path, line_number, {"label": _known(label, options.names), "text": text[0]})
        else:
            problem = f"{label!r} is not a label and a text"
            yield Record(path, line_number, InputError(problem, where=path, line=line_number))


def _read_fasttext(path: Path, options: TextOptions) -> Iterator[Record]:
    """Yields a text with the list of its labels for each line that is not blank."""
    for line_number, line in nonblank_lines(path, options.encoding):
        words = line.split()
        labels = [word.removeprefix(FASTTEXT) for word in words if word.startswith(FASTTEXT)]
        yield Record(path, line_number, {"label": labels, "text": _without_labels(line)})


def _read_class_file(path: Path, options: TextOptions) -> Iterator[Record]:
    label = class_of_path(path, "class_files", options.names) or path.name
    return _labelled(_read_text(path, options), label)


def _read_class_folder(path: Path, options: TextOptions) -> Iterator[Record]:
    return _labelled(_read_document(path, options), path.parent.name)


def _labelled(records: Iterator[Record], label: str) -> Iterator[Record]:
    return (Record(each.path, each.line, each.values | {"label": label}) for each in records)


def class_of_path(path: Path, format: str, names: Collection[str]) -> str | None:
    """Returns the class in the name of a folder, or of a file, such as `pos.txt` or `reviews.pos`."""
    parts = (path.parent.name,) if format == "class_folders" else (path.name, path.stem, path.suffix[1:])
    return next((name for name in parts if name in names), None)


def _known(label: str, names: Collection[str]) -> str:
    before = label.partition(":")[0]
    return before if label not in names and before in names else label


def _without_labels(line: str) -> str:
    return " ".join(word for word in line.split() if not word.startswith(FASTTEXT))


def path_format(files: Sequence[Path], names: Collection[str]) -> str | None:
    """Returns the first of `CLASS_PATHS` by which two files or more have different classes, or `None`."""
    for format in CLASS_PATHS:
        if len({class_of_path(file, format, names) for file in files} - {None}) > 1:
            return format
    return None


def lines_format(path: Path, options: TextOptions) -> str | None:
    """Returns `fasttext` or `label_text` if the first lines are of it, or `None`."""
    if is_parquet(path):
        return None
    lines = [line for _, line in islice(nonblank_lines(path, options.encoding), _LINES)]
    if _is_fasttext(lines):
        return "fasttext"
    words = [line.split(maxsplit=1) for line in lines]
    has_labels = all(len(each) == 2 and _known(each[0], options.names) in options.names for each in words)
    return "label_text" if lines and has_labels else None


def find_texts(sample: FileSample) -> Finding:
    """Returns how a classifier's reader reads data."""
    if names := _classes_of_paths(sample):
        tokenizer = tokenizer_keys(sample.lines)
        has_texts = tokenizer or any(len(line.split()) > 1 for line in sample.lines)
        return Finding(LIKELY if has_texts else 0, [{"classes": sorted(names), **tokenizer}])
    if _is_fasttext(sample.lines):
        labels = {word for line in _all_lines(sample) for word in line.split() if word.startswith(FASTTEXT)}
        classes = sorted(label.removeprefix(FASTTEXT) for label in labels)
        tokenizer = tokenizer_keys(map(_without_labels, sample.lines))
        return Finding(CERTAIN, [{"classes": classes, **tokenizer}])
    table = read_table(sample)
    found = find_table(sample, table) if table else Finding(0)
    if found.candidates or (table and (table.header or table.problem) and _has_tabs(sample)):
        return found
    if labels := _first_words(sample):
        evidence = LIKELY if all(map(_CODE.fullmatch, labels)) else POSSIBLE
        tokenizer = tokenizer_keys(line.partition(" ")[2] for line in sample.lines)
        return Finding(evidence, [{"format": "label_text", "classes": sorted(labels), **tokenizer}])
    return found


def _is_fasttext(lines: Sequence[str]) -> bool:
    return bool(lines) and all(line.startswith(FASTTEXT) for line in lines)


def _classes_of_paths(sample: FileSample) -> set[str]:
    """Returns the names of folders, or else of files, if they may be classes."""
    folders = {file.parent for file in sample.files}
    innermost = folders.difference(*(folder.parents for folder in folders))
    files = [file for file in sample.files if file.parent in innermost and not _ABOUT.match(file.name)]
    if len(files) < 2 or any(file.suffix in _TABLE_FILES for file in files):
        return set()
    for names in ({folder.name for folder in innermost} - _UNLABELLED, _names_of_files(files, sample)):
        parts = {part for name in names for part in re.split(r"[\W_]", name)}
        if 1 < len(names) <= MAX_CLASSES and not parts & _SPLITS:
            return names
    return set()


def _names_of_files(files: Sequence[Path], sample: FileSample) -> set[str]:
    if has_sentences(sample) or _has_tabs(sample):
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
    if not sample.lines or has_sentences(sample) or len({file.suffix for file in sample.files}) > 1:
        return set()
    words = [line.split(maxsplit=1) for line in _all_lines(sample)]
    labels = {each[0].partition(":")[0] for each in words}
    is_few = 2 <= len(labels) <= min(len(words) // 2, MAX_CLASSES)
    have_texts = len(words) < 1.1 * sum(len(each) == 2 for each in words)
    return labels if is_few and have_texts and all(map(_LABEL.fullmatch, labels)) else set()


TABLES: dict[str, RecordFormat] = {
    **dict.fromkeys(("delimited", *DELIMITER_OF_FORMAT), "delimited"),
    **dict.fromkeys(("json", "jsonl"), "json"),
    "parquet": "parquet",
}
"""The formats whose records name their columns, or get names from a reader."""
READ: dict[str, Callable[[Path, TextOptions], Iterator[Record]]] = {
    **{name: partial(_read_table, format=format) for name, format in TABLES.items()},
    "text": _read_text,
    "document": _read_document,
    "label_text": _read_label_text,
    "fasttext": _read_fasttext,
    "class_folders": _read_class_folder,
    "class_files": _read_class_file,
}
"""The formats by the names that a reader's key `format` has for them."""
