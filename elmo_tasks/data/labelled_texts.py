"""The base class of the readers of texts, and of pairs of texts, with a class each."""

import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Optional, cast

from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance, Token
from allennlp.data.fields import Field, MetadataField, TextField

from elmo_tasks.common.values import Name, Names, OneOf
from elmo_tasks.data.fields import Metadata, check_label, ids_of, labelled_instance, no_prediction
from elmo_tasks.data.formats import texts
from elmo_tasks.data.formats.delimited import DelimitedLayout, dialect_of
from elmo_tasks.data.formats.records import (
    ANSWER,
    RecordFormat,
    class_names,
    is_parquet,
    is_rejected,
    read_records,
    record_format,
)
from elmo_tasks.data.guesses import Table, as_label, only_item, unread_texts
from elmo_tasks.data.input_files import (
    InputError,
    NoWordsError,
    Record,
    input_files,
    named_by,
    shorten_json,
    value_or_error,
)
from elmo_tasks.data.reader import TaskReader

logger = logging.getLogger(__name__)

_SAMPLE = 100
"""The records that tell which columns hold texts."""
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_DELIMITED = ("auto", "delimited", *_DELIMITERS)
_RECORDS: dict[str, RecordFormat] = {
    **dict.fromkeys(("delimited", *_DELIMITERS), "delimited"),
    "json": "json",
    "jsonl": "json",
    "parquet": "parquet",
}
FORMATS = (
    *("auto", *_RECORDS),
    *("text", "document", "label_text", "fasttext", "class_folders", "class_files"),
)


class _Example(NamedTuple):
    record: Record
    texts: list[str]
    label: str | None


class LabelledTextReader(TaskReader):
    """
    Base class of the readers of texts, and of pairs of texts, with a class each.

    # Parameters

    classes : the names of the classes, in their order.
    label_names : the class of each label in the files, where numbers are text; null: the labels are the names
        of the classes, or in Parquet also numbers whose names the file has.
    format : `auto` tells from the file, its name and the labels. `csv`, `tsv` or another `delimited` file;
        `json` or `jsonl`: a list of objects, `{"data": [...]}` or an object a line; `parquet`. Texts with the
        columns `text` and `label` may also be `text`, a text a line; `document`, a text a file; `label_text`,
        a label, a blank and a text a line; `fasttext`; `class_folders`, a folder with a text a file for each
        class; `class_files`, a file with a text a line for each class.
    columns : names of the columns of a delimited file without a header; null: its first line has them.
    delimiter : between the columns; by default that of `csv` or `tsv`, or else found from the file.
    quotes : whether cells may be quoted, a doubled quote in them meaning one; `auto` finds it.
    skip_bad : whether to leave out, and count, records with an error: no words, or an unknown label.
        Records that Prodigy's annotators have rejected or ignored are left out, and counted, in any case.
    The others : see `TaskReader`.

    # Raises
    `ConfigurationError`: `columns` for a format that has its own; fewer than two classes, or one twice; label
    names of other classes. When reading, `InputError` with file, line and column: there is no file, nothing
    in a file, a format error, no such column, text that is no string or has no words, or an unknown label.
    """

    undecided: Sequence[str] = ()
    """The labels of records without a class, which are left out, and counted."""
    text_names: ClassVar[tuple[str, str]]
    metadata_class: ClassVar[Callable[..., Metadata]]
    """Makes the metadata of the words of each text."""

    def __init__(
        self,
        *,
        classes: list[Name],
        label_names: Optional[dict[str, Name]] = None,
        format: Annotated[str, OneOf(FORMATS)] = "auto",
        columns: Optional[Names] = None,
        delimiter: Name = "auto",
        quotes: Annotated[Any, OneOf(("auto", True, False))] = "auto",
        skip_bad: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if columns is not None and format not in _DELIMITED:
            raise ConfigurationError(f"found columns, but {format} names them itself")
        if columns is not None and len(set(columns)) < len(columns):
            raise ConfigurationError(f"columns: found {', '.join(columns)}, expected each name once")
        if isinstance(classes, str) or len(set(classes)) < max(2, len(classes)):
            raise ConfigurationError(f"classes: found {classes!r}, expected two names or more, each once")
        if label_names is not None and set(label_names.values()) != set(classes):
            named = ", ".join(dict.fromkeys(label_names.values()))
            raise ConfigurationError(f"label_names: found names of {named}, expected of {', '.join(classes)}")
        self.classes = classes
        self.label_names: Mapping[str, str] = label_names or {name: name for name in classes}
        self.format, self.skip_bad = format, skip_bad
        delimiter = _DELIMITERS.get(format, delimiter) if delimiter == "auto" else delimiter
        self.layout = DelimitedLayout(columns, delimiter, quotes)

    @property
    @abstractmethod
    def pairs(self) -> bool:
        """True if instances have two texts."""

    @abstractmethod
    def text_columns(self, values: Mapping[str, Any]) -> list[list[str]]:
        """Returns the columns of each text of a record, which are joined by blanks."""

    @abstractmethod
    def label_column(self, values: Mapping[str, Any]) -> str | None:
        """Returns the column of a record's label, or `None` if the data have no labels."""

    def instance(self, texts: Sequence[str | list[str]], label: str | None) -> Instance:
        """Returns the instance of plain texts, or of words. No words, or an unknown label, are an error."""
        check_label(label, self.classes)
        tokens = [self.tokens(text) for text in texts]
        for name, each in zip(self.text_names, tokens, strict=False):
            if not each:
                raise ConfigurationError(f"found a {name} without words, expected at least one word")
        return self._of_tokens(tokens, label)

    def _of_tokens(self, tokens: list[list[Token]], label: str | None) -> Instance:
        names = zip(self.text_names, tokens, strict=False)
        fields: dict[str, Field] = {name: TextField(each) for name, each in names}
        words = [[token.text or "" for token in each] for each in tokens]
        fields["metadata"] = MetadataField(self.metadata_class(*words))
        return labelled_instance(fields, label, self.classes)

    def format_of(self, files: Sequence[Path]) -> str:
        """Returns the name of the format; of a delimited file, its delimiter and whether it has a header."""
        format = self._format_of(files[0], self._format_of_all(files))
        if format != "delimited":
            return format
        dialect = dialect_of(files[0], self.layout, encoding=self.encoding)
        names = {mark: name for name, mark in _DELIMITERS.items()}
        header = "" if self.layout.columns is None else " without a header"
        return names.get(dialect.delimiter, f"delimited by {dialect.delimiter}") + header

    def columns_of(self, files: Sequence[Path]) -> dict[str, list[str]]:
        format = self._format_of(files[0], self._format_of_all(files))
        if format not in _RECORDS:
            return {}
        rows = [record.values for record in islice(self._records(files[0], format), _SAMPLE)]
        texts = [name for names in self.text_columns(rows[0]) for name in names]
        label = self.label_column(rows[0])
        labels = [] if label is None else [label]
        unread = unread_texts(Table(rows, True, {}), texts + labels)
        return {"texts": texts, "label": labels, "not read": unread}

    def _read(self, file_path: str) -> Iterator[Instance]:
        files = input_files(file_path)
        format = self._format_of_all(files)
        if format in ("class_folders", "class_files") and not self.every_record:
            files = self._of_classes(file_path, files, format)
        read = partial(self._file, format=format)
        if format == "class_folders":  # one log for all files
            read, files = partial(self._folders, files=files), [cast(Path, file_path)]
        for example in self.shard_iterable(self.read_files(file_path, read, self._describe, files)):
            yield self._instance(example)

    def _instance(self, example: _Example | InputError) -> Instance:
        if isinstance(example, InputError):
            return no_prediction(example)
        tokens = [self.tokens(text) for text in example.texts]
        if not all(tokens):  # only of a tokenizer that drops characters
            raise example.record.error("no words", "at least one word")
        instance = self._of_tokens(tokens, example.label)
        instance["metadata"].metadata.ids = ids_of(example.record.values)
        return instance

    def _of_classes(self, path: str, files: list[Path], format: str) -> list[Path]:
        """Returns the files of classes, and counts the others in the log; all files if none is of a class."""

        def has_class(file: Path) -> bool:
            if format == "class_folders":
                return file.parent.name in self.label_names
            return texts.class_of_file(file, self.label_names) is not None

        of_classes = [file for file in files if has_class(file)] or files
        if len(of_classes) < len(files):
            other = next(file for file in files if not has_class(file))
            count = len(files) - len(of_classes)
            logger.warning("%s: %d files left out, of no class, such as %s", path, count, other)
        return of_classes

    def _folders(
        self, path: Path, counts: Counter[str], *, files: list[Path]
    ) -> Iterator[_Example | InputError]:
        for file in files:
            records = texts.read_document(file, encoding=self.encoding)
            yield from self._examples(file, _labelled(records, file.parent.name), counts)
        self._check(path, counts)

    def _file(self, path: Path, counts: Counter[str], *, format: str) -> Iterator[_Example | InputError]:
        yield from self._examples(path, self._records(path, format), counts)
        self._check(path, counts)

    def _check(self, path: Path, counts: Counter[str]) -> None:
        if not counts["instances"]:
            found = "no record" + self._left_out(counts)
            raise InputError.at(path, found=found, expected="at least one")

    def _records(self, path: Path, format: str) -> Iterator[Record]:
        format = self._format_of(path, format)
        if format in _RECORDS:
            return read_records(path, _RECORDS[format], self.layout, encoding=self.encoding)
        if format == "label_text":
            return texts.read_label_text(path, self.label_names, encoding=self.encoding)
        if format == "class_files":
            label = texts.class_of_file(path, self.label_names) or path.name
            return _labelled(texts.read_text(path, encoding=self.encoding), label)
        read = {"text": texts.read_text, "document": texts.read_document, "fasttext": texts.read_fasttext}
        return read[format](path, encoding=self.encoding)

    def _format_of_all(self, files: Sequence[Path]) -> str:
        """Returns the format that the names of the files tell, or else that of the config, maybe `auto`."""
        if self.format != "auto" or self.pairs or self.layout.columns is not None:
            return self.format
        return texts.path_format(files, self.label_names) or self.format

    def _format_of(self, path: Path, format: str) -> str:
        """Returns the format of a file, which it shows itself if `format` is `auto`."""
        if format != "auto":
            return format
        found = None
        columns, delimiter, _ = self.layout
        if columns is None and not self.pairs and delimiter == "auto" and not is_parquet(path):
            found = texts.line_format(path, self.label_names, encoding=self.encoding)
        return found or record_format(path, encoding=self.encoding)

    def _examples(
        self, path: Path, records: Iterator[Record], counts: Counter[str]
    ) -> Iterator[_Example | InputError]:
        names = class_names(path) if is_parquet(path) else {}
        for example in self.valid_examples(
            path, (value_or_error(self._example, record, names) for record in records)
        ):
            if example is None:
                counts["rejected"] += 1
                continue
            label = None if isinstance(example, InputError) else example.label
            if label in self.undecided:
                counts["undecided"] += 1
                continue
            counts["instances"] += 1
            counts[f"of {label}"] += 1
            yield example

    def _example(self, record: Record, names: Mapping[str, Sequence[str]]) -> _Example | None:
        """Returns the example of a record; `None` if it is rejected."""
        with named_by(ids_of(record.values)):
            if is_rejected(record.values) and not self.every_record and not self._reads_answer(record):
                return None
            words = [_text(record, column) for column in self.text_columns(record.values)]
            return _Example(record, words, None if self.every_record else self._label(record, names))

    def _reads_answer(self, record: Record) -> bool:
        texts, label = self.text_columns(record.values), self.label_column(record.values)
        return ANSWER in (label, *chain(*texts))

    def _label(self, record: Record, names: Mapping[str, Sequence[str]]) -> str | None:
        column = self.label_column(record.values)
        if column is None:
            return None
        value = only_item(_value(record, column))
        label = as_label(value)
        if label not in self.label_names and type(value) is int and 0 <= value < len(names.get(column, ())):
            label = names[column][value]
        if label in self.label_names:
            return self.label_names[label]
        if label not in self.undecided:
            expected = f"one of {', '.join(self.label_names)}; the keys classes and label_names name others"
            raise record.error(f"the label {label!r} in the column {column!r}", expected)
        return label

    def _describe(self, counts: Counter[str]) -> str:
        by_class = ", ".join(f"{name} {counts[f'of {name}']}" for name in self.classes)
        labels = "no labels" if counts["of None"] else by_class
        return f"{counts['instances']} instances ({labels}){self._left_out(counts)}"

    def _left_out(self, counts: Counter[str]) -> str:
        reasons = []
        if count := counts["undecided"]:
            reasons.append(f"{count} with the label {self.undecided[0]!r}")
        if count := counts["rejected"]:
            reasons.append(f"{count} that annotators have rejected or ignored")
        return f"; left out: {', '.join(reasons)}" if reasons else ""


def _labelled(records: Iterator[Record], label: str) -> Iterator[Record]:
    return (Record(each.path, each.line, each.values | {"label": label}) for each in records)


def _text(record: Record, columns: list[str]) -> str:
    values = [_value(record, name) for name in columns]
    for name, value in zip(columns, values, strict=True):
        if not isinstance(value, str):
            raise record.error(f"{shorten_json(value)} in the column {name!r}", "text")
    text = " ".join(filter(None, values))
    if not text.strip():
        found = f"no words in the column {' and '.join(map(repr, columns))}"
        raise NoWordsError.at(record.path, record.line, found=found, expected="at least one word")
    return text


def _value(record: Record, column: str) -> Any:
    if column not in record.values:
        raise record.error(f"the columns {', '.join(map(repr, record.values))}", f"also {column!r}")
    return record.values[column]
