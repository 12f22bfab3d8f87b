"""
Texts with a class each: tables and JSON, lines of TREC and fastText, and a folder or a file for each class.

The values of a record have the names of its columns; in a format without columns, `text` and `label`.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from elmo_tasks.data.formats.delimited import AUTO, DelimitedLayout
from elmo_tasks.data.formats.records import RecordFormat, is_parquet, read_records
from elmo_tasks.data.input_files import (
    InputError,
    Record,
    counterpart,
    first_lines,
    nonblank_lines,
    read_lines,
    read_side_by_side,
)

FASTTEXT = "__label__"
CLASS_PATHS = ("class_folders", "class_files")
"""The formats with the class in the name of the folder or the file."""
DELIMITER_OF_FORMAT = {"csv": ",", "tsv": "\t"}
_LINES_OF_FORMAT = 20
_TEXT_FILES = ("text", "texts", "sentences", "sentence", "tweets", "data")
"""The words in the names of files of texts that have their labels in another file."""
_LABEL_FILES = ("labels", "label")


class TextOptions(NamedTuple):
    """The keys of a reader that formats need."""

    names: Collection[str] = ()
    """The labels in the files."""
    layout: DelimitedLayout = AUTO
    encoding: str = "utf-8"


def _read_table(path: Path, options: TextOptions, *, format: RecordFormat) -> Iterator[Record]:
    return read_records(path, format, options.layout, encoding=options.encoding)


def _read_text(path: Path, options: TextOptions) -> Iterator[Record]:
    lines = nonblank_lines(path, options.encoding)
    return (Record(path, line_number, {"text": line}) for line_number, line in lines)


def _read_document(path: Path, options: TextOptions) -> Iterator[Record]:
    text = "\n".join(line for _, line in read_lines(path, encoding=options.encoding))
    if text.strip():
        yield Record(path, 1, {"text": text})


def _read_label_text(path: Path, options: TextOptions) -> Iterator[Record]:
    """Yields the first word of each line as the label, see `_known`, and the rest as the text."""
    for line_number, line in nonblank_lines(path, options.encoding):
        label, *text = line.split(maxsplit=1)
        if text:
            yield Record(path, line_number, {"label": _known(label, options.names), "text": text[0]})
        else:
            problem = f"{label!r} is not a label and a text"
            yield Record(path, line_number, InputError(problem, where=path, line=line_number))


def _read_fasttext(path: Path, options: TextOptions) -> Iterator[Record]:
    for line_number, line in nonblank_lines(path, options.encoding):
        words = line.split()
        labels = [word.removeprefix(FASTTEXT) for word in words if word.startswith(FASTTEXT)]
        yield Record(path, line_number, {"label": labels, "text": without_labels(line)})


def _read_label_files(path: Path, options: TextOptions) -> Iterator[Record]:
    for line_number, text, label in read_side_by_side(path, label_file(path) or path, options.encoding):
        if text.strip() or label.strip():
            yield Record(path, line_number, {"label": label.strip(), "text": text})


def label_file(path: Path) -> Path | None:
    """
    Returns the file with the labels of a file of texts, such as `train_labels.txt` of `train_text.txt` or of
    `train.txt`, and `label` of `seq.in`.
    """
    names = ((text, label) for text in _TEXT_FILES for label in _LABEL_FILES)
    if file := next((file for text, label in names if (file := counterpart(path, text, label))), None):
        return file
    if path.name == "seq.in":
        beside = [path.with_name("label")]
    elif path.suffix in (".csv", ".tsv"):  # tables have columns of labels
        return None
    else:
        beside = [path.with_name(f"{path.stem}_{label}{path.suffix}") for label in _LABEL_FILES]
    return next((file for file in beside if file.is_file()), None)


def _read_class_file(path: Path, options: TextOptions) -> Iterator[Record]:
    label = class_of_path(path, "class_files", options.names) or path.name
    for each in _read_text(path, options):
        yield Record(path, each.line, each.values | {"label": label})


def _read_class_folder(path: Path, options: TextOptions) -> Iterator[Record]:
    for each in _read_document(path, options):
        yield Record(path, each.line, each.values | {"label": path.parent.name})


def class_of_path(path: Path, format: str, names: Collection[str]) -> str | None:
    """Returns the class in the name of a folder, or of a file, such as `pos.txt` or `reviews.pos`."""
    parts = (path.parent.name,) if format == "class_folders" else (path.name, path.stem, path.suffix[1:])
    return next((name for name in parts if name in names), None)


def _known(label: str, names: Collection[str]) -> str:
    """Returns a label, or the part before its colon, as in `DESC:manner`, if only this is known."""
    before = label.partition(":")[0]
    return before if label not in names and before in names else label


def without_labels(line: str) -> str:
    """Returns a line without its labels of fastText."""
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
    lines = list(filter(str.strip, first_lines(path, _LINES_OF_FORMAT, options.encoding)))
    if is_fasttext(lines):
        return "fasttext"
    words = [line.split(maxsplit=1) for line in lines]
    has_labels = all(_known(each[0], options.names) in options.names for each in words)
    return "label_text" if has_labels and 2 * sum(len(each) == 2 for each in words) > len(words) else None


def is_fasttext(lines: Sequence[str]) -> bool:
    """Tells whether each line begins with a label of fastText."""
    return bool(lines) and all(line.startswith(FASTTEXT) for line in lines)


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
    "label_files": _read_label_files,
    "class_folders": _read_class_folder,
    "class_files": _read_class_file,
}
