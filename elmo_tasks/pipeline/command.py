"""
`allennlp predict` without losses: a bad line leaves the results before it whole, and each result is written
immediately. It reads JSON Lines, plain or packed, or columns of a table; with a dataset reader, each record
has a line in the output, with its ids.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Optional

from allennlp.commands import predict as stock
from allennlp.common import JsonDict
from allennlp.common import logging as common_logging
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance
from allennlp.data.dataset_readers import MultiTaskDatasetReader
from allennlp.models.archival import Archive
from allennlp.predictors import Predictor

from elmo_tasks.common.files import refuse_inputs_as_outputs
from elmo_tasks.common.machine import chosen_device
from elmo_tasks.common.values import PositiveInt, check_value
from elmo_tasks.data.input_files import input_files
from elmo_tasks.data.reader import TaskReader
from elmo_tasks.pipeline.csv_output import CsvWriter, is_csv
from elmo_tasks.pipeline.predictor import InputRecord, TaskPredictor, as_task_predictor
from elmo_tasks.pipeline.stream import column_records, json_records, open_lines, predict, reader_record


def run_predict(arguments: argparse.Namespace) -> None:
    """Runs `allennlp predict`."""
    common_logging.FILE_FRIENDLY_LOGGING = arguments.file_friendly_logging
    if arguments.silent and not arguments.output_file:
        print("--silent without --output-file: there is nothing to do")
        return
    predict_file(
        get_predictor(arguments),
        arguments.input_file,
        arguments.output_file,
        arguments.batch_size,
        prints=not arguments.silent,
        by_reader=arguments.use_dataset_reader,
        head=arguments.multitask_head,
        columns=arguments.text,
    )


def get_predictor(arguments: argparse.Namespace) -> TaskPredictor:
    """Makes the predictor of `allennlp predict`."""
    predictor_args = predictor_arguments(arguments.predictor_args)
    if arguments.output_file is not None:
        sources = list(filter(None, (arguments.archive_file, arguments.weights_file)))
        refuse_inputs_as_outputs([arguments.output_file], sources, error=ConfigurationError)
    chosen_device(arguments.cuda_device, option="--cuda-device")
    archive = stock.load_archive(
        arguments.archive_file,
        weights_file=arguments.weights_file,
        cuda_device=arguments.cuda_device,
        overrides=arguments.overrides,
    )
    return predictor_of(
        archive,
        arguments.predictor,
        arguments.dataset_reader_choice,
        predictor_args,
        arguments.min_probability,
    )


def predict_file(
    predictor: TaskPredictor,
    source: str,
    output: str | None = None,
    batch_size: int | None = None,
    prints: bool = False,
    by_reader: bool = False,
    head: str | None = None,
    columns: Sequence[str] = (),
) -> None:
    """
    Predicts the lines of a file, or of standard input for `-`; or the texts in `columns` of a table; or,
    `by_reader`, the instances that the predictor's dataset reader reads there, with the `head` of a multitask
    reader. Writes each result as a line to the file `output`, or as rows if it is csv or tsv, see
    `CsvWriter`, and `prints` it with its input. Nothing is written if there is no input.
    """
    check_value(batch_size, Optional[PositiveInt], "--batch-size")
    reader = predictor._dataset_reader if by_reader else None
    if (head is not None) != isinstance(reader, MultiTaskDatasetReader):
        raise ConfigurationError("--multitask-head is for a multitask dataset reader, which needs it")
    if columns and reader is not None:
        raise ConfigurationError("--text and --use-dataset-reader exclude each other")
    files = list(map(str, input_files(source))) if columns else _inputs(source, reader)
    if output is not None:
        refuse_inputs_as_outputs([output], files, error=ConfigurationError)
        writes_csv = is_csv(output, predictor)
    records: Iterable[InputRecord]
    waits: Callable[[], bool] | None = None
    with ExitStack() as opened:
        if columns:
            records = column_records(predictor, source, columns)
        elif reader is None:
            lines = opened.enter_context(open_lines(source))
            shown = lines if output is None else lines.with_bar("predict")
            records, waits = json_records(predictor, shown, lines.name), lines.waits
        else:
            if isinstance(reader, TaskReader):
                reader.every_record = True
            records = map(
                reader_record, reader.read(source, **({} if head is None else {"force_task": head}))
            )
        file, write_row = None, None
        if output is not None:
            file = opened.enter_context(open(output, "w", 1, "utf-8", newline="\n"))
            if writes_csv:
                write_row = CsvWriter(file, Path(output), predictor)
        index = 0

        def write(record: InputRecord, result: JsonDict) -> None:
            nonlocal index
            line, content = predictor.dump_line(result), record.content
            if prints:
                print(f"input {index}: ", content if isinstance(content, Instance) else json.dumps(content))
                print("prediction: ", line)
            if write_row is not None:
                write_row(record, result)
            elif file is not None:
                file.write(line)
            sys.stdout.flush()
            index += 1

        predict(records, predictor, write, batch_size, waits)


def _inputs(path: str, reader: DatasetReader | None) -> list[str]:
    """
    Returns the files that are read, if they are known; a third-party reader may read others. A missing file
    is an error here, before an output file is made.
    """
    if reader is None:
        return [path]
    if path == "-":
        raise ConfigurationError("--use-dataset-reader cannot read standard input")
    if isinstance(reader, TaskReader):
        return list(map(str, input_files(path)))
    return [path] if os.path.exists(path) else []


def predictor_arguments(text: str) -> dict[str, Any]:
    """Reads the value of `--predictor-args`; `ConfigurationError` if it is not a JSON object."""
    with suppress(json.JSONDecodeError):
        if isinstance(content := json.loads(text.strip() or "{}"), dict):
            return content
    raise ConfigurationError(f"--predictor-args must be a JSON object, not {text!r}")


def predictor_of(
    archive: Archive, name: str | None, reader: str, arguments: dict[str, Any], min_probability: float = 0.0
) -> TaskPredictor:
    """
    Makes the predictor of a command, with the `reader` `train` or `validation`; for `min_probability` see
    `as_task_predictor`. Wrong arguments are an error, and so is a predictor of ours for a model of others.
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
        raise ConfigurationError(f"--predictor-args: {error}") from error
    task_predictor = as_task_predictor(predictor, min_probability)
    task_predictor.may_set_threads = True
    return task_predictor
