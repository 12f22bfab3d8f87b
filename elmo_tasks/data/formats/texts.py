"""Records of texts with classes: lines of TREC and fastText, and a folder or a file for each class."""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path

from elmo_tasks.data.input_files import InputError, Record, nonblank_lines, read_lines

FASTTEXT = "__label__"
_SAMPLE = 20


def read_text(path: Path, *, encoding: str | None = None) -> Iterator[Record]:
    """Yields a record with `text` for each line that is not blank."""
    return (Record(path, line_number, {"text": line}) for line_number, line in nonblank_lines(path, encoding))


def read_document(path: Path, *, encoding: str | None = None) -> Iterator[Record]:
    """Yields one record with `text`, the whole file; none if it is blank."""
    text = "\n".join(line for _, line in read_lines(path, encoding=encoding))
    if text.strip():
        yield Record(path, 1, {"text": text})


def read_label_text(path: Path, names: Collection[str], *, encoding: str | None = None) -> Iterator[Record]:
    """
    Yields a record with `label` and `text` for each line that is not blank: its first word, and the rest. If
    only the part of the label before a colon is one of `names`, as in `DESC:manner`, it is the label. A line
    of one word is a damaged record.
    """
    for line_number, line in nonblank_lines(path, encoding):
        label, *text = line.split(maxsplit=1)
        if text:
            yield Record(path, line_number, {"label": _known(label, names), "text": text[0]})
        else:
            error = InputError.at(path, line_number, found=repr(label), expected="a label and a text")
            yield Record(path, line_number, error)


def read_fasttext(path: Path, *, encoding: str | None = None) -> Iterator[Record]:
    """Yields a record with `text` and `label`, the list of its labels, for each line that is not blank."""
    for line_number, line in nonblank_lines(path, encoding):
        words = line.split()
        labels = [word.removeprefix(FASTTEXT) for word in words if word.startswith(FASTTEXT)]
        text = " ".join(word for word in words if not word.startswith(FASTTEXT))
        yield Record(path, line_number, {"label": labels, "text": text})


def line_format(path: Path, names: Collection[str], *, encoding: str | None = None) -> str | None:
    """Returns the format of a file by its first lines, `fasttext` or `label_text`, or `None`."""
    lines = [line for _, line in islice(nonblank_lines(path, encoding), _SAMPLE)]
    if lines and all(line.startswith(FASTTEXT) for line in lines):
        return "fasttext"
    words = [line.split(maxsplit=1) for line in lines]
    if lines and all(len(each) == 2 and _known(each[0], names) in names for each in words):
        return "label_text"
    return None


def path_format(files: Sequence[Path], names: Collection[str]) -> str | None:
    """Returns `class_folders` or `class_files`, if two or more have the names of classes, or `None`."""
    if len({file.parent.name for file in files} & set(names)) > 1:
        return "class_folders"
    return "class_files" if len({class_of_file(file, names) for file in files} - {None}) > 1 else None


def class_of_file(path: Path, names: Collection[str]) -> str | None:
    """Returns the class in the name of a file, such as `pos.txt` or `reviews.pos`."""
    return next((name for name in (path.name, path.stem, path.suffix[1:]) if name in names), None)


def _known(label: str, names: Collection[str]) -> str:
    before = label.partition(":")[0]
    return before if label not in names and before in names else label
