"""Records to results: lines of JSON and tables as sources, and the one way from a source to a sink."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.data import Instance
from allennlp.data.fields import MetadataField
from allennlp.predictors import Predictor

from elmo_tasks.common.errors import ElmoError, did_you_mean_path
from elmo_tasks.common.files import UNREADABLE, local_or_bundled, not_utf8, open_input
from elmo_tasks.common.lines import InputLines
from elmo_tasks.data.fields import Metadata, NoPrediction
from elmo_tasks.data.formats.containers import container
from elmo_tasks.data.formats.delimited import DelimitedLayout
from elmo_tasks.data.formats.profile import read_table
from elmo_tasks.data.formats.records import read_records
from elmo_tasks.data.formats.sample import sample_of
from elmo_tasks.data.input_files import InputError, Record, ids_of, printable, shorten, shorten_json
from elmo_tasks.pipeline.predictor import (
    InputRecord,
    TaskPredictor,
    attempt,
    example_of,
    groups_of,
    value_of,
)


def predict(
    source: Iterable[InputRecord],
    predictor: TaskPredictor,
    sink: Callable[[InputRecord, JsonDict], object],
    batch_size: int | None = None,
    waits: Callable[[], bool] | None = None,
) -> int:
    """
    Predicts the records of a source, gives a sink each with the JSON object of its result, in order, and
    returns their number. The object begins with the ids of its record: those that the reader has given its
    instance, or those of an object, see `TaskPredictor.ids`. An error is raised after the results before it;
    that of the first object says what the predictor reads.

    # Parameters

    batch_size : the most records that are read before they are predicted; by default `group_size`.
    waits : says whether the next record has yet to arrive, so that those before it are predicted first.
    """
    count = 0
    for group in groups_of(source, batch_size or predictor.group_size(), waits):
        metadata = [_metadata(record.content) for record in group]
        pairs = list(zip(group, metadata, strict=True))
        results = iter(
            predictor.results([record for record, about in pairs if not isinstance(about, NoPrediction)])
        )
        for record, about in pairs:
            ids = about.ids if isinstance(about, Metadata) else {}
            if isinstance(record.content, dict):
                ids = predictor.ids(record.content)
            if isinstance(about, NoPrediction):
                output = {"no_prediction": about.reason}
            else:
                result = next(results)
                if isinstance(result, Exception) and not count and not isinstance(record.content, Instance):
                    result.add_note(_expected_form(predictor))
                output = predictor.to_json(value_of(result))
            sink(record, {**ids, **output})
            count += 1
    return count


def _metadata(content: object) -> object:
    field = content.fields.get("metadata") if isinstance(content, Instance) else None
    return field.metadata if isinstance(field, MetadataField) else None


def reader_record(instance: Instance) -> InputRecord:
    """Returns the record of an instance, with all values of its row, if its reader keeps them."""
    metadata = _metadata(instance)
    return InputRecord(instance, row=metadata.row if isinstance(metadata, Metadata) else None)


def _expected_form(predictor: TaskPredictor) -> str:
    form = {name: example_of(kind) for name, kind in (predictor.forms[0] if predictor.forms else {}).items()}
    expected = f"the predictor reads a JSON object a line{f', such as {json.dumps(form)}' if form else ''}"
    return f"{expected}; for data like those of the training, use `allennlp predict --use-dataset-reader`"


def json_records(
    predictor: Predictor, lines: Iterable[bytes], name: str, *, before: int = 0
) -> Iterator[InputRecord]:
    """
    Yields a record for each line that is not blank, by `load_line` of the predictor, and for an error of
    reading. Errors give the input the `name`. `before` is the number of lines before the first.
    """
    place, number = f"{name}, line", before
    try:
        for number, line in enumerate(lines, start=before + 1):
            if line.decode("utf-8", "replace").strip():
                content = attempt(lambda line: predictor.load_line(_decoded(line)), line)
                yield InputRecord(content, f"{place} {number}")
    except (*UNREADABLE, ElmoError) as error:
        yield InputRecord(ConfigurationError(str(error)), f"{place} {number + 1}")


def column_records(predictor: TaskPredictor, path: str, columns: Sequence[str]) -> Iterator[InputRecord]:
    """
    Yields a record for each of the `text_rows` at a path: the texts in its columns, as the fields of the
    predictor's first form, and its ids and short fields that the predictor does not read. An error is that of
    its row. `ConfigurationError`: see `text_rows`; or the predictor reads another number of texts.
    """
    names = list(predictor.forms[0]) if predictor.forms else []
    if len(names) != len(columns):
        reads = " and ".join(names) or "no texts"
        raise ConfigurationError(f"--text takes a column for each text, and the predictor reads {reads}")
    read = {*columns, *predictor.readable()}

    def content(values: JsonDict) -> JsonDict:
        texts = {name: values[column] for name, column in zip(names, columns, strict=True)}
        return ids_of(values, read) | texts

    for row in text_rows(path, columns):
        made = row.make(content)
        if isinstance(made, InputError):
            yield InputRecord(made)
        else:
            yield InputRecord(made, f"{row.path}, line {row.line}", row.values)


def text_rows(path: str, columns: Sequence[str]) -> Iterator[Record]:
    """
    Yields the rows of the tables at a path, see `read_records`. A row without a text in one of the columns is
    a damaged record. `InputError`: there is no table, or no such column.
    """
    sample = sample_of(path, texts=columns)
    if (table := read_table(sample)) is None:
        raise InputError(f"this is {container(sample)}, not a table", where=path)
    if missing := [column for column in columns if column not in table.columns]:
        if not table.columns:
            raise InputError("the table has no rows", where=path)
        shown = shorten(", ".join(table.columns), 200)
        raise InputError(f"no column is {missing[0]!r}, only {shown}", where=path)
    layout = DelimitedLayout(None if table.has_header else list(table.columns))

    def checked(values: JsonDict) -> JsonDict:
        for column in columns:
            if not isinstance(text := values.get(column), str):
                raise InputError(f"the column {column!r} has {shorten_json(text)} in place of a text")
        return values

    for file in sample.files:
        for record in read_records(file, layout=layout, encoding=sample.encoding):
            yield Record(file, record.line, record.make(checked))


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        text = shorten(printable(line.decode("utf-8", "surrogateescape").strip()))
        raise ConfigurationError(f"{not_utf8(error)}: {text}") from error


@contextmanager
def open_lines(path: str) -> Iterator[InputLines]:
    """
    Opens the lines of a file, plain or packed, of a URL or a pipe, or of standard input for `-`.
    `FileNotFoundError`: there is none; `InputError`: a folder.
    """
    try:
        file = path if path == "-" else str(cached_path(local_or_bundled(path)))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}{did_you_mean_path(path)}") from error
    if os.path.isdir(file):
        raise InputError(f"{path} is a folder, not a file of JSON Lines")
    with open_input(file) as opened:
        yield InputLines(opened, path)
