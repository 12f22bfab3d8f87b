"""Records to results: the source of lines of JSON, and the one way from a source to a sink."""

import json
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from io import BytesIO
from typing import Any

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.data import Instance
from allennlp.data.fields import MetadataField
from allennlp.predictors import Predictor

from elmo_tasks.common.errors import did_you_mean_path
from elmo_tasks.common.files import UNREADABLE, decompressed, local_or_bundled, not_utf8, raw_lines
from elmo_tasks.common.progress import progress
from elmo_tasks.data.fields import Metadata, NoPrediction
from elmo_tasks.data.input_files import InputError, printable, shorten
from elmo_tasks.pipeline.predictor import (
    InputRecord,
    TaskPredictor,
    attempt,
    groups_of,
    value_of,
)

_BLOCK = 1 << 16
"""Bytes that are read from a pipe at a time, if they have arrived."""


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
        metadata = list(map(_metadata, group))
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


def _metadata(record: InputRecord) -> object:
    content = record.content
    field = content.fields.get("metadata") if isinstance(content, Instance) else None
    return field.metadata if isinstance(field, MetadataField) else None


def _expected_form(predictor: TaskPredictor) -> str:
    form = dict.fromkeys(predictor.forms[0] if predictor.forms else (), "...")
    expected = f"the predictor reads a JSON object a line{f', such as {json.dumps(form)}' if form else ''}"
    return f"{expected}; for data like those of the training, use `allennlp predict --use-dataset-reader`"


def json_records(
    predictor: Predictor, lines: Iterable[bytes], name: str | None, *, before: int = 0
) -> Iterator[InputRecord]:
    """
    Yields a record for each line that is not blank, by `load_line` of the predictor. Errors give the file the
    `name`, if it has one. `before` is the number of lines before the first.
    """
    place, number = f"{name}, line" if name else "line", before
    try:
        for number, line in enumerate(lines, start=before + 1):
            if line.decode("utf-8", "replace").strip():
                content = attempt(lambda line: predictor.load_line(_decoded(line)), line)
                yield InputRecord(content, f"{place} {number}")
    except UNREADABLE as error:
        yield InputRecord(ConfigurationError(str(error)), f"{place} {number + 1}")


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        text = shorten(printable(line.decode("utf-8", "surrogateescape").strip()))
        raise ConfigurationError(f"{not_utf8(error)}: {text}") from error


class FileLines:
    """
    The lines of a file, plain or packed, of a URL, or of standard input for `-`; with the name of a `work`,
    with its bar, which counts the bytes of a file, and the lines of a pipe, which may come slowly.
    """

    def __init__(self, path: str, *, work: str | None = None) -> None:
        self.name = None if path == "-" else path
        self._file = "" if path == "-" else json_lines_file(path)
        self._work = work
        self._arrived: deque[bytes] | None = None

    def __iter__(self) -> Iterator[bytes]:
        path = self._file
        is_file = os.path.isfile(path)
        opened: Any = open(path, "rb") if path else nullcontext(sys.stdin.buffer)  # noqa: SIM115
        with opened as file:
            lines = decompressed(file) if path else file
            unit = {"unit": "B", "total": os.path.getsize(path)} if is_file else {"unit": "lines"}
            with progress(work=self._work or "", unit_scale=True, disable=self._work is None, **unit) as bar:
                for line in raw_lines(lines if is_file else self._of_pipe(lines)):
                    yield line
                    bar.update(file.tell() - bar.n if is_file else 1)

    def waits(self) -> bool:
        """Returns whether the next line that is not blank has yet to arrive."""
        return self._arrived is not None and not any(map(bytes.strip, self._arrived))

    def _of_pipe(self, file: Any) -> Iterator[bytes]:
        self._arrived = arrived = deque[bytes]()
        rest = b""
        # It waits only for the first byte.
        while block := file.read1(_BLOCK):
            arrived.extend(BytesIO(rest + block))
            rest = b"" if arrived[-1].endswith(b"\n") else arrived.pop()
            while arrived:
                yield arrived.popleft()
        if rest:
            yield rest


def json_lines_file(path: str) -> str:
    """Returns the local file of a path or URL. `FileNotFoundError`: there is none; `InputError`: a folder."""
    try:
        file = str(cached_path(local_or_bundled(path)))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}{did_you_mean_path(path)}") from error
    if os.path.isdir(file):
        raise InputError(f"{path} is a folder, not a file of JSON Lines")
    return file
