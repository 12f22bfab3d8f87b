"""
`allennlp predict` without losses: a bad line leaves the results before it whole. It reads JSON Lines,
plain or packed.
"""

import argparse
import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any, Optional

from allennlp.commands import predict
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.data import DatasetReader, Instance
from allennlp.models.archival import Archive
from allennlp.predictors import Predictor

from elmo_tasks.common.errors import did_you_mean_path
from elmo_tasks.common.files import (
    UNREADABLE,
    decompressed,
    local_or_bundled,
    not_utf8,
    raw_lines,
    refuse_inputs_as_outputs,
)
from elmo_tasks.common.machine import chosen_device
from elmo_tasks.common.progress import progress
from elmo_tasks.common.values import PositiveInt, check_value
from elmo_tasks.data.input_files import InputError, input_files, printable, shorten
from elmo_tasks.data.reader import TaskReader
from elmo_tasks.pipeline.predictor import (
    InputRecord,
    TaskPredictor,
    as_task_predictor,
    attempt,
    predict_records,
)

_BLOCK = 1 << 16
"""Bytes that are read from a pipe at a time, if they have arrived."""


def read_json_records(
    predictor: Predictor, lines: Iterable[bytes], source: str | None, *, before: int = 0
) -> Iterator[InputRecord]:
    """
    Yields a record for each line that is not blank, by `load_line` of the predictor. Errors name the file
    `source`; without one, blank lines are not counted. `before` is the number of lines before the first.
    """
    number = before

    def where() -> str:
        return f"{source}, line {number}" if source else f"line {number} (blank lines not counted)"

    try:
        for line in lines:
            is_blank = not line.decode("utf-8", "replace").strip()
            number += not is_blank or source is not None
            if not is_blank:
                yield InputRecord(attempt(lambda line: predictor.load_line(_decoded(line)), line), where())
    except UNREADABLE as error:
        number += 1
        yield InputRecord(ConfigurationError(str(error)), where())


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        text = shorten(printable(line.decode("utf-8", "surrogateescape").strip()))
        raise ConfigurationError(f"{not_utf8(error)}: {text}") from error


def read_file(predictor: Predictor, lines: "InputLines") -> Iterator[InputRecord]:
    """Yields the records of a file."""
    return read_json_records(predictor, lines, None if lines.path == "-" else lines.path)


class InputLines:
    """
    The lines of a file, plain or packed, of a URL, or of standard input for `-`. From a pipe they may come
    slowly.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._arrived: deque[bytes] | None = None

    def __iter__(self) -> Iterator[bytes]:
        if self.path == "-":
            yield from raw_lines(self._of_pipe(sys.stdin.buffer))
            return
        local = json_lines_file(self.path)
        with open(local, "rb") as file:
            lines = decompressed(file)
            yield from raw_lines(lines if os.path.isfile(local) else self._of_pipe(lines))

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


class PredictManager(predict._PredictManager):
    """
    AllenNLP's loop over the lines of a file, with four changes. Lines are read as bytes, so that a line that
    is not UTF-8 has its own error. They are read ahead, and run in batches of similar length. Each result is
    written immediately. With a dataset reader, each record has a line in the output, with its ids.
    """

    def __init__(
        self,
        predictor: Predictor,
        input_file: str,
        output_file: str | None,
        batch_size: int | None,
        print_to_console: bool,
        has_dataset_reader: bool,
        multitask_head: str | None = None,
    ) -> None:
        super().__init__(predictor, input_file, None, 1, print_to_console, has_dataset_reader, multitask_head)
        check_value(batch_size, Optional[PositiveInt], "--batch-size")
        self._most = batch_size
        self._lines = InputLines(input_file)
        sources = _inputs(input_file, self._dataset_reader)
        if output_file is not None:
            refuse_inputs_as_outputs([output_file], sources, error=ConfigurationError)
        self._output_path = output_file
        if isinstance(self._dataset_reader, TaskReader):
            self._dataset_reader.every_record = True

    def run(self) -> None:
        results = predict_records(self._predictor, self._records(), self._most, self._lines.waits)
        if self._output_path is not None:
            self._output_file = open(  # noqa: SIM115
                self._output_path, "w", buffering=1, encoding="utf-8", newline="\n"
            )
        index = -1
        try:
            for index, (record, result) in enumerate(results):
                content = record.content
                shown = str(content) if isinstance(content, Instance) else json.dumps(content)
                self._maybe_print_to_console_and_file(index, self._predictor.dump_line(result), shown)
                sys.stdout.flush()
        except ConfigurationError as error:
            if index < 0 and self._dataset_reader is None:
                error.add_note(expected_form(self._predictor))
            raise
        finally:
            if self._output_file is not None:
                self._output_file.close()

    def _records(self) -> Iterator[InputRecord]:
        if self._dataset_reader is None:
            records = read_file(self._predictor, self._lines)
            if self._output_path is None:
                yield from records
            else:
                yield from progress(
                    records, work="predict", unit="lines", total=_number_of_lines(self._input_file)
                )
        else:
            yield from map(InputRecord, self._get_instance_data())


def expected_form(predictor: Predictor) -> str:
    """Returns what to do with a file that begins with something else than the predictor reads."""
    forms = getattr(predictor, "forms", None) or [{}]
    form = dict.fromkeys(forms[0], "...")
    expected = f"the predictor reads a JSON object a line{f', such as {json.dumps(form)}' if form else ''}"
    return f"{expected}; for data like those of the training, use `allennlp predict --use-dataset-reader`"


def _inputs(path: str, reader: DatasetReader | None) -> list[str]:
    """
    Returns the files that are read, if they are known; a third-party reader may read others. A missing file
    is an error here, before an output file is made.
    """
    if reader is None:
        if path != "-":
            json_lines_file(path)
        return [path]
    if isinstance(reader, TaskReader):
        return list(map(str, input_files(path)))
    return [path] if os.path.exists(path) else []


def _number_of_lines(path: str) -> int | None:
    """Returns the number of lines that are not blank, or `None` where only reading to the end would tell."""
    with suppress(*UNREADABLE):
        return sum(bool(line.strip()) for line in InputLines(path)) if os.path.isfile(path) else None
    return None


def predictor_arguments(text: str) -> dict[str, Any]:
    """Reads the value of `--predictor-args`; `ConfigurationError` if it is not a JSON object."""
    with suppress(json.JSONDecodeError):
        if isinstance(content := json.loads(text.strip() or "{}"), dict):
            return content
    raise ConfigurationError(f"--predictor-args must be a JSON object, not {text!r}")


def predictor_of(archive: Archive, name: str | None, reader: str, arguments: dict[str, Any]) -> TaskPredictor:
    """
    Makes a predictor with the `reader` `train` or `validation`. Wrong arguments are an error, and so is a
    predictor of ours for a model of others.
    """
    ours = name in Predictor.list_available() and issubclass(Predictor.by_name(name), TaskPredictor)
    if ours and not hasattr(archive.model, "results"):
        raise ConfigurationError(
            f"--predictor {name} is for models of elmo_tasks, not for {type(archive.model).__name__}, whose "
            f"predictor is {archive.model.default_predictor}"
        )
    try:
        predictor = Predictor.from_archive(archive, name, dataset_reader_to_load=reader, extra_args=arguments)
    except TypeError as error:
        if not arguments:
            raise
        problem = str(error).partition("__init__() ")[2] or error
        raise ConfigurationError(f"--predictor-args: the predictor {problem}") from error
    task_predictor = as_task_predictor(predictor)
    task_predictor.in_own_process = True
    return task_predictor


def get_predictor(arguments: argparse.Namespace) -> Predictor:
    """Makes the predictor of `allennlp predict`. Sets a batch size that is not given from 1 to `None`."""
    # argparse takes `--batch` for `--batch-size`, too, and no other option begins like it.
    if not any(text.startswith("--b") for text in sys.argv):
        arguments.batch_size = None
    predictor_args = predictor_arguments(arguments.predictor_args)
    if arguments.output_file is not None:
        sources = list(filter(None, (arguments.archive_file, arguments.weights_file)))
        refuse_inputs_as_outputs([arguments.output_file], sources, error=ConfigurationError)
    chosen_device(arguments.cuda_device, option="--cuda-device")
    archive = predict.load_archive(
        arguments.archive_file,
        weights_file=arguments.weights_file,
        cuda_device=arguments.cuda_device,
        overrides=arguments.overrides,
    )
    return predictor_of(archive, arguments.predictor, arguments.dataset_reader_choice, predictor_args)
