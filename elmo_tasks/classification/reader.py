"""
Reads labelled sentences and pairs of sentences from files with named columns: AG News, SST-2, MRPC, KLUE and
the like.

- `csv`: fields between commas, `"` around a field with commas or line breaks, `""` for a quote in it (RFC
  4180). `tsv`: a record a line, fields between tabs; quotes have no meaning. The names of the columns are
  given, or stand in the first line.
- `json`: a list of objects. `jsonl`: an object a line. Their keys are the columns.
- `text`: a record a line, its one column is `text`. `document`: a record a file, with the same column.

Empty lines are skipped.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import Field, MetadataField, TextField

from elmo_tasks.common.values import Name, Names, OneOf
from elmo_tasks.data.fields import Metadata, check_label, labelled_instance
from elmo_tasks.data.formats.delimited import read_delimited
from elmo_tasks.data.formats.json_records import read_json_records
from elmo_tasks.data.input_files import InputError, Record, read_lines
from elmo_tasks.data.json_lines import shorten_json
from elmo_tasks.data.reader import TaskReader

Text = Union[str, list[str]]
"""Plain text, or its words."""
Columns = Sequence[str] | None


def read_records(path: Path, format: str, columns: Columns) -> Iterator[Record]:
    """
    Yields the records of a file.

    # Parameters

    format : a key of `FORMATS`.
    columns : names of the columns of a csv or tsv file without a header; `None`: the first line has them.

    # Raises
    `InputError`, with file and line: the file is not of the format, a record has another number of columns,
    or the header has a column twice; and see `read_lines`.
    """
    return FORMATS[format](path, columns)


def _csv(path: Path, columns: Columns) -> Iterator[Record]:
    return read_delimited(path, columns=columns, delimiter=",")


def _tsv(path: Path, columns: Columns) -> Iterator[Record]:
    return read_delimited(path, columns=columns, delimiter="\t")


def _json(path: Path, _: Columns) -> Iterator[Record]:
    return read_json_records(path)


def _text(path: Path, _: Columns) -> Iterator[Record]:
    return (Record(number, {"text": line}) for number, line in read_lines(path) if line.strip())


def _document(path: Path, _: Columns) -> Iterator[Record]:
    lines = [line for _, line in read_lines(path)]
    if any(map(str.strip, lines)):
        yield Record(1, {"text": "\n".join(lines)})


FORMATS: dict[str, Callable[[Path, Columns], Iterator[Record]]] = {
    "csv": _csv,
    "tsv": _tsv,
    "json": _json,
    "jsonl": _json,
    "text": _text,
    "document": _document,
}


@dataclass
class ClassifierText(Metadata):
    """The metadata of an instance."""

    sentence1: list[str]
    sentence2: list[str] | None = None

    def __len__(self) -> int:
        """Returns the tokens of the longer sentence, by which samplers sort."""
        return max(len(self.sentence1), len(self.sentence2 or ()))


@DatasetReader.register("elmo_classifier")
class ClassificationReader(TaskReader):
    """
    Reads text and class from columns of csv, tsv, json, jsonl or plain text files.

    Instances have `sentence1`, in pairs also `sentence2`, `metadata` (a `ClassifierText`) and, if labelled,
    `label`. The vocabulary has all classes, in the order of `classes`.

    # Parameters

    format : `csv`, `tsv`, `json`, `jsonl`, `text` or `document`.
    columns : names of the columns of a csv or tsv file without a header; null: its first line has them.
    sentence1 : the column of the text, or several columns whose texts are joined by blanks; empty texts are
        left out.
    sentence2 : the same for the second sentence of pairs; null: single sentences.
    label : the column of the class; null: the files are text to pre-train on, without labels.
    classes : the names of the classes, in their order.
    label_names : the class of each label in the files, where numbers are text; null: the labels are the names
        of the classes.
    The others : see `TaskReader`.

    # Raises
    `ConfigurationError`: an unknown format; `columns` for a format that has its own; fewer than two classes,
    or one twice; label names of other classes. When reading, `InputError` with file, line and column: there
    is no file, nothing in a file, a format error, no such column, text that is no string or has no words, or
    an unknown label.
    """

    def __init__(
        self,
        *,
        format: Annotated[str, OneOf(FORMATS)],
        sentence1: Union[Name, Names],
        label: Optional[Name],
        classes: list[Name],
        sentence2: Optional[Union[Name, Names]] = None,
        columns: Optional[Names] = None,
        label_names: Optional[dict[str, Name]] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if columns is not None and format not in ("csv", "tsv"):
            raise ConfigurationError(f"found columns, but {format} names them itself")
        if columns is not None and len(set(columns)) < len(columns):
            raise ConfigurationError(f"columns: found {', '.join(columns)}, expected each name once")
        if isinstance(classes, str) or len(set(classes)) < max(2, len(classes)):
            raise ConfigurationError(f"classes: found {classes!r}, expected two names or more, each once")
        if label_names is not None and set(label_names.values()) != set(classes):
            named = ", ".join(dict.fromkeys(label_names.values()))
            raise ConfigurationError(f"label_names: found names of {named}, expected of {', '.join(classes)}")
        self.format = format
        self.columns = columns
        self.texts = [
            [names] if isinstance(names, str) else names
            for names in (sentence1, sentence2)
            if names is not None
        ]
        """The columns of each sentence."""
        self.label = label
        self.classes = classes
        self.label_names = label_names or {name: name for name in classes}

    @property
    def pairs(self) -> bool:
        """True if instances have two sentences."""
        return len(self.texts) == 2

    def _read(self, file_path: str) -> Iterator[Instance]:
        for sentences, label in self.shard_iterable(self.read_files(file_path, self._file, self._describe)):
            yield self._instance(sentences, label)

    def text_to_instance(
        self, sentence1: Text, sentence2: Optional[Text] = None, label: Optional[str] = None
    ) -> Instance:
        """
        Returns the instance of one sentence, or of one pair; without `label` for prediction.

        # Raises
        `ConfigurationError`: a pair for a reader of single sentences, or the reverse; a sentence without
        words; or a label that is not in `classes`.
        """
        if (sentence2 is not None) != self.pairs:
            found, expected = ("one sentence", "a pair") if self.pairs else ("a pair", "one sentence")
            raise ConfigurationError(f"found {found}, expected {expected}, as in the reader's files")
        check_label(label, self.classes)
        sentences = [self.tokens(text) for text in (sentence1, sentence2) if text is not None]
        if not all(sentences):
            raise ConfigurationError("found a sentence without words, expected at least one word")
        return self._instance(sentences, label)

    def _instance(self, sentences: list[list[Token]], label: str | None) -> Instance:
        words = [[token.text or "" for token in tokens] for tokens in sentences]
        fields: dict[str, Field] = {
            name: TextField(tokens)
            for name, tokens in zip(("sentence1", "sentence2"), sentences, strict=False)
        }
        fields["metadata"] = MetadataField(ClassifierText(*words))
        return labelled_instance(fields, label, self.classes)

    def _file(self, path: Path, counts: Counter[str]) -> Iterator[tuple[list[list[Token]], str | None]]:
        for record in read_records(path, self.format, self.columns):
            sentences = [self._sentence(path, record, names) for names in self.texts]
            label = None if self.label is None else self._class(path, record, self.label)
            counts["instances"] += 1
            if label is not None:
                counts[f"of {label}"] += 1
            yield sentences, label
        if not counts:
            raise InputError.at(path, found="no record", expected="at least one")

    def _describe(self, counts: Counter[str]) -> str:
        by_class = ", ".join(f"{name} {counts[f'of {name}']}" for name in self.classes)
        return f"{counts['instances']} instances ({by_class if self.label else 'no labels'})"

    def _class(self, path: Path, record: Record, column: str) -> str:
        value = _value(path, record, column)
        label = value if isinstance(value, str) else json.dumps(value)
        if label not in self.label_names:
            found, expected = f"the label {label!r} in the column {column!r}", ", ".join(self.label_names)
            raise InputError.at(path, record.line, found=found, expected=f"one of {expected}")
        return self.label_names[label]

    def _sentence(self, path: Path, record: Record, columns: list[str]) -> list[Token]:
        values = [_value(path, record, name) for name in columns]
        for name, value in zip(columns, values, strict=True):
            if not isinstance(value, str):
                found = f"{shorten_json(value)} in the column {name!r}"
                raise InputError.at(path, record.line, found=found, expected="text")
        tokens = self.tokens(" ".join(filter(None, values)))
        if not tokens:
            found = f"no words in the column {' and '.join(map(repr, columns))}"
            raise InputError.at(path, record.line, found=found, expected="at least one word")
        return tokens


def _value(path: Path, record: Record, column: str) -> Any:
    if column not in record.values:
        known = ", ".join(map(repr, record.values))
        raise InputError.at(path, record.line, found=f"the columns {known}", expected=f"also {column!r}")
    return record.values[column]
