"""The base class of the readers of texts, and of pairs of texts, with a class each."""

import logging
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Optional, Union, cast

from allennlp.data import Instance
from allennlp.data.fields import Field, MetadataField, TextField
from allennlp.data.vocabulary import DEFAULT_PADDING_TOKEN

from elmo_tasks.common.values import Name, Names, OneOf
from elmo_tasks.data.fields import Metadata, check_label, labelled_instance
from elmo_tasks.data.formats.delimited import AUTO, DelimitedLayout, dialect_of
from elmo_tasks.data.formats.profile import as_label, normal, only_item, read_table
from elmo_tasks.data.formats.records import (
    ANSWER,
    DECISIONS,
    class_names,
    is_parquet,
    is_rejected,
    record_format,
)
from elmo_tasks.data.formats.sample import sample_of_files
from elmo_tasks.data.formats.tables import unread_texts
from elmo_tasks.data.formats.texts import (
    CLASS_PATHS,
    DELIMITER_OF_FORMAT,
    READ,
    TABLES,
    TextOptions,
    class_of_path,
    label_file,
    lines_format,
    path_format,
)
from elmo_tasks.data.input_files import (
    InputError,
    NoWordsError,
    check_found,
    ids_of,
    input_files,
    shorten,
    shorten_json,
)
from elmo_tasks.data.reader import TaskReader
from elmo_tasks.data.tally import Tally

_INSTANCES = "instances"
_RECORDS_WITH_COLUMNS = 100
"""The records that tell which columns hold texts."""
_TRUE, _FALSE = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no")
_DELIMITED = ("auto", "delimited", *DELIMITER_OF_FORMAT)


class _Example(NamedTuple):
    line: int
    ids: dict[str, Any]
    texts: list[str]
    label: str | list[str] | None
    """Empty if the record has none; a list if texts have several."""
    row: dict[str, Any] | None = None
    """All values of a record to predict."""


class LabelledTextReader(TaskReader):
    """
    Base class of the readers of texts, and of pairs of texts, with a class each. Records without a label, and
    those that Prodigy's annotators have rejected or ignored, are left out, and counted.

    # Parameters

    classes : the names of the classes, in their order.
    label_names : the class of each label in the files, where numbers are text; null: the labels are the names
        of the classes, or in Parquet also numbers whose names the file has.
    several_labels : whether a text may have any number of the classes: true if the labels are lists, or the
        mark between the labels of a cell. An empty list or cell has none.
    format : `auto` tells from the file, its name and the labels. `csv`, `tsv` or another `delimited` file;
        `json` or `jsonl`; `parquet`. Texts with the columns `text` and `label` may also be `text`, a text a
        line; `document`, a text a file; `label_text`, a label, a blank and a text a line; `fasttext`;
        `label_files`, such as `train_text.txt` and `train_labels.txt`; `class_folders`, a folder with a text
        a file for each class; `class_files`, a file with a text a line for each class.
    columns : names of the columns of a delimited file without a header; null: its first line has the names.
        For a prediction, a file may have a header nevertheless.
    delimiter : between the columns; by default the mark of `csv` or `tsv`, or else found from the file.
    quotes : whether cells may be quoted, a doubled quote in them meaning one; or the quote `'`, as true means
        `"`; `auto` finds it.
    The others : see `TaskReader`.

    """

    undecided: Sequence[str] = ()
    """The labels of records without a class, which are left out, and counted."""
    text_names: ClassVar[tuple[str, str]]
    metadata_class: ClassVar[Callable[..., Metadata]]
    """Makes the metadata of the words of each text."""
    pairs: bool

    def __init__(
        self,
        *,
        classes: list[Optional[Name]],
        label_names: Optional[dict[str, Optional[Name]]] = None,
        several_labels: Union[bool, Name] = False,
        format: Annotated[str, OneOf(("auto", *READ))] = "auto",
        columns: Optional[Names] = None,
        delimiter: Name = "auto",
        quotes: Annotated[Any, OneOf(("auto", True, False, "'"))] = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if columns is not None and format not in _DELIMITED:
            raise InputError(f"the format {format} names its columns itself", key="columns")
        if columns is not None and len(set(columns)) < len(columns):
            raise InputError(f"{', '.join(columns)} has a name twice", key="columns")
        if isinstance(classes, str) or len({*classes} - {DEFAULT_PADDING_TOKEN}) < max(2, len(classes)):
            problem = f"{classes!r} is not a list of two names or more, each once"
            raise InputError(f"{problem}, and not {DEFAULT_PADDING_TOKEN}", key="classes")
        self.classes = list(map(str, classes))  # AllenNLP makes None of a "None" in a config
        labels = {name: name for name in self.classes} if label_names is None else label_names
        self.label_names: Mapping[str, str] = {label: str(name) for label, name in labels.items()}
        if set(self.label_names.values()) != set(self.classes):
            named = ", ".join(dict.fromkeys(self.label_names.values()))
            raise InputError(f"its classes are {named}, not {', '.join(self.classes)}", key="label_names")
        self.several_labels = several_labels
        self.format = format
        delimiter = DELIMITER_OF_FORMAT.get(format, delimiter) if delimiter == "auto" else delimiter
        self.layout = DelimitedLayout(columns, delimiter, quotes)

    @abstractmethod
    def columns(self, values: Mapping[str, Any]) -> tuple[list[list[str]], list[str]]:
        """
        Returns the columns that each text of a record is joined of, and the column of its label, if any, or
        a column for each of several labels.
        """

    def instance(self, texts: Sequence[str | list[str]], label: str | Sequence[str] | None) -> Instance:
        """Returns the instance of plain texts, or of words. No words, or an unknown label, are an error."""
        for each in [label] if isinstance(label, str) else label or ():
            check_label(each, self.classes)
        fields: dict[str, Field] = {}
        for name, text in zip(self.text_names, texts, strict=False):
            tokens = self.tokens(text)
            if not tokens:
                raise NoWordsError(f"the {name} has no words")
            fields[name] = TextField(tokens)
        words = [[token.text or "" for token in field] for field in fields.values()]
        fields["metadata"] = MetadataField(self.metadata_class(*words))
        return labelled_instance(fields, label, self.classes)

    def format_of(self, files: Sequence[Path]) -> str:
        """Returns the name of the format; of a delimited file, its delimiter and whether it has a header."""
        format = self._format(files)
        if format != "delimited":
            return format
        dialect = dialect_of(files[0], self.layout, encoding=self.encoding)
        names = {mark: name for name, mark in DELIMITER_OF_FORMAT.items()}
        header = "" if self.layout.columns is None else " without a header"
        return names.get(dialect.delimiter, f"delimited by {dialect.delimiter}") + header

    def columns_of(self, files: Sequence[Path]) -> dict[str, list[str]]:
        format = self._format(files)
        if format not in TABLES:
            return {}
        values = (
            record.make(dict)
            for record in islice(READ[format](files[0], self.options), _RECORDS_WITH_COLUMNS)
        )
        rows = [row for row in values if not isinstance(row, InputError)]
        columns, labels = self.columns(rows[0])
        texts = list(chain(*columns))
        return {"texts": texts, "label": labels, "not read": unread_texts(rows, texts + labels)}

    @property
    def options(self) -> TextOptions:
        """The keys that formats need."""
        return TextOptions(self.label_names, self.layout, self.encoding)

    def _format(self, files: Sequence[Path]) -> str:
        """Returns the format, which the names of the files tell, or else the first file shows."""
        found = None
        if self.format == "auto" and not self.pairs and self.layout.columns is None:
            found = path_format(files, self.label_names)
            if found is None and self.layout.delimiter == "auto":
                found = lines_format(files[0], self.options)
        elif self.format != "auto":
            found = self.format
        return found or record_format(files[0], encoding=self.encoding)

    def examples(self, file_path: str) -> Iterator[_Example | InputError]:
        files = input_files(file_path)
        format = self._format(files)
        if format in (*CLASS_PATHS, "label_files") and not self.every_record:
            files = self._of_classes(file_path, files, format)
        groups = {path: [path] for path in files}
        if format == "class_folders":  # one log for all files
            groups = {cast(Path, file_path): files}
        read = partial(self._files, groups=groups, format=format if format in CLASS_PATHS else None)
        return self.read_files(file_path, read, list(groups))

    def instances(self, example: _Example) -> Iterator[Instance]:
        instance = self.instance(example.texts, example.label)
        metadata = instance["metadata"].metadata
        metadata.ids, metadata.row = example.ids, example.row
        yield instance

    def _of_classes(self, path: str, files: list[Path], format: str) -> list[Path]:
        """Returns the files of texts, and counts the others in the log; all files if none is of a class."""
        class_of = partial(class_of_path, format=format, names=self.label_names)
        of_classes = [file for file in files if (label_file if format == "label_files" else class_of)(file)]
        of_classes = of_classes or files
        if others := sorted({*files}.difference(of_classes, map(label_file, files))):
            problem = "%s: %d files left out, of no class, such as %s"
            logging.getLogger(type(self).__module__).warning(problem, path, len(others), others[0])
        return of_classes

    def _files(
        self, path: Path, counts: Tally, *, groups: Mapping[Path, list[Path]], format: str | None
    ) -> Generator[_Example | InputError]:
        for file in groups[path]:
            yield from self._examples(file, format or self._format([file]), counts)
        is_read = not counts or any(name.startswith((_INSTANCES, "bad")) for name in counts)
        check_found(is_read, f"records to read ({counts})", path)

    def _examples(self, path: Path, format: str, counts: Tally) -> Iterator[_Example | InputError]:
        options = self.options
        if self.every_record and options.layout.columns and _has_header(path, self.encoding):
            options = options._replace(layout=AUTO)
        make = partial(self._example, class_names(path) if is_parquet(path) else {})
        examples: Iterator[_Example | str | InputError]
        examples = (record.make(partial(make, record.line)) for record in READ[format](path, options))
        for example in examples:
            if isinstance(example, str):
                counts[f"records that annotators have {example} left out"] += 1
                continue
            if isinstance(example, InputError):
                yield example
                continue
            label = example.label
            if isinstance(label, list):
                counts[_INSTANCES] += 1
                for each in label:
                    counts[f"label {each}"] += 1
                yield example
                continue
            if label == "":
                counts.count_oddity("records without a label left out", example.line, "there is no label")
                continue
            if label in self.undecided:
                counts[f"records with the label {label!r} left out"] += 1
                continue
            counts[_INSTANCES if label is None else f"{_INSTANCES}: {label}"] += 1
            yield example

    def _example(
        self, names: Mapping[str, Sequence[str]], line: int, values: dict[str, Any]
    ) -> _Example | str:
        """Returns the example of a record, or how annotators have left it out."""
        columns, labels = self.columns(values)
        if self.every_record:
            columns = _columns_of_texts(values, columns)
        if is_rejected(values, *labels[:1]) and not self.every_record and ANSWER not in chain(*columns):
            return DECISIONS[values[ANSWER]]
        ids = ids_of(values, {*chain(*columns), *labels})
        try:
            words = [_text(values, names_of_text) for names_of_text in columns]
        except InputError as error:
            error.ids = ids
            raise
        if self.every_record:
            return _Example(line, ids, words, None, values)
        return _Example(line, ids, words, self._labels(values, labels, names))

    def _labels(
        self, values: Mapping[str, Any], columns: list[str], names: Mapping[str, Sequence[str]]
    ) -> str | list[str] | None:
        if len(columns) > 1:
            return [self._label(name, name, ()) for name in columns if _is_true(values, name)]
        if not columns:
            return None
        (column,) = columns
        value, class_names = _value(values, column), names.get(column, ())
        if not self.several_labels or value is None:
            return self._label(only_item(value), column, class_names)
        if isinstance(value, str) and isinstance(self.several_labels, str):
            value = list(map(str.strip, value.split(self.several_labels)))
        if not isinstance(value, list):
            problem = f"{shorten_json(value)} in the column {column!r} is not a list of labels"
            raise InputError(problem, remedy="the key several_labels may name the mark between labels")
        labels = (self._label(each, column, class_names) for each in value)
        return list(dict.fromkeys(filter(None, labels)))

    def _label(self, value: Any, column: str, class_names: Sequence[str]) -> str:
        label = "" if value in (None, []) else as_label(value)
        if label not in self.label_names and type(value) is int and 0 <= value < len(class_names):
            label = class_names[value]
        if label in self.label_names:
            return self.label_names[label]
        if label and label not in self.undecided:
            problem = (
                f"{label!r} in the column {column!r} is not one of the labels {', '.join(self.label_names)}"
            )
            raise InputError(problem, remedy="the keys classes and label_names name others")
        return label


def _has_header(path: Path, encoding: str) -> bool:
    table = read_table(sample_of_files([path], encoding))
    return table is not None and table.has_header


def _columns_of_texts(values: Mapping[str, Any], columns: list[list[str]]) -> list[list[str]]:
    """
    Returns the columns of the texts of a record to predict: those of the training, whatever their case, or
    `text` for a single text. `InputError`: there are none.
    """
    if all(name in values for name in chain(*columns)):
        return columns
    by_name = {normal(name): name for name in values}
    alike = [[by_name.get(normal(name), "") for name in names] for names in columns]
    if all(chain(*alike)):
        return alike
    if len(columns) == 1 and "text" in by_name:
        return [[by_name["text"]]]
    missing = next(name for name in chain(*columns) if name not in values)
    problem = f"no column is {missing!r}, only {shorten(', '.join(map(repr, values)), 200)}"
    raise InputError(problem, remedy="--text COLUMN, in place of --use-dataset-reader, names it")


def _text(values: Mapping[str, Any], columns: list[str]) -> str:
    texts = [_value(values, name) for name in columns]
    for name, text in zip(columns, texts, strict=True):
        if not isinstance(text, str):
            raise InputError(f"{shorten_json(text)} in the column {name!r} is not a text")
    text = " ".join(filter(None, texts))
    if not text.strip():
        raise NoWordsError(f"the column {' and '.join(map(repr, columns))} has no words")
    return text


def _value(values: Mapping[str, Any], column: str) -> Any:
    if column not in values:
        raise InputError(
            f"the column {column!r} is missing; the columns are {shorten(', '.join(map(repr, values)), 200)}"
        )
    return values[column]


def _is_true(values: Mapping[str, Any], column: str) -> bool:
    """Tells whether a text has the label of a column."""
    value = as_label(_value(values, column) or 0).lower()
    if value not in _TRUE and value not in _FALSE:
        raise InputError(
            f"{value!r} in the column {column!r} is not 0 or 1, which say if a text has the label"
        )
    return value in _TRUE
