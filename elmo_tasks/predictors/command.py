"""`allennlp predict` without losses: a bad line leaves the results before it whole."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from allennlp.commands import predict
from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.data import DatasetReader, Instance
from allennlp.data.fields import MetadataField
from allennlp.models.archival import Archive
from allennlp.predictors import Predictor

from elmo_tasks.common.devices import chosen_device
from elmo_tasks.common.files import UNREADABLE, check_sources_stay, local_or_bundled, raw_lines, unpacked
from elmo_tasks.common.progress import progress
from elmo_tasks.data.fields import Metadata, NoPrediction
from elmo_tasks.data.input_files import InputError, input_files, standard_input
from elmo_tasks.data.reader import TaskReader
from elmo_tasks.predictors.json_lines import JsonLinesPredictor


class PredictManager(predict._PredictManager):
    """
    AllenNLP's loop over the lines of a file, with three changes. Lines are read as bytes, so that one that is
    not UTF-8 is an error of that line. Results are in the output file as soon as they are computed. With a
    dataset reader, each record has a line in the output, with its ids.
    """

    def __init__(
        self,
        predictor: Predictor,
        input_file: str,
        output_file: str | None,
        batch_size: int,
        print_to_console: bool,
        has_dataset_reader: bool,
        multitask_head: str | None = None,
    ) -> None:
        super().__init__(
            predictor, input_file, None, batch_size, print_to_console, has_dataset_reader, multitask_head
        )
        if batch_size < 1:
            raise ConfigurationError(f"--batch-size is {batch_size}, expected a positive whole number")
        sources = _inputs(input_file, self._dataset_reader)
        if output_file is not None:
            check_sources_stay([output_file], sources, error=ConfigurationError)
        self._output_file: Any = None if output_file is None else LineFile(output_file)
        self._problem: Exception | None = None
        if isinstance(predictor, JsonLinesPredictor) and isinstance(self._dataset_reader, TaskReader):
            self._dataset_reader.every_record = True

    def run(self) -> None:
        try:
            super().run()
            sys.stdout.flush()
        finally:
            if self._output_file is not None:
                self._output_file.close()
        if self._problem is not None:
            raise self._problem

    def _predict_json(self, batch_data: list[JsonDict]) -> Iterator[str]:
        return predicted_lines(self._predictor, batch_data)

    def _predict_instances(self, batch_data: list[Instance]) -> Iterator[str]:
        whole = [each for each in batch_data if not isinstance(_metadata(each), NoPrediction)]
        # A third-party predictor may implement either.
        one, several = self._predictor.predict_instance, self._predictor.predict_batch_instance
        results = iter([one(whole[0])] if len(whole) == 1 else several(whole) if whole else [])
        for metadata in map(_metadata, batch_data):
            none = isinstance(metadata, NoPrediction)
            result = {"no_prediction": metadata.reason} if none else next(results)
            ids = dict(metadata.ids) if isinstance(metadata, Metadata) else {}
            yield self._predictor.dump_line(ids | result)

    def _get_instance_data(self) -> Iterator[Instance]:
        """Yields the instances before an error, which is raised when these are predicted."""
        try:
            yield from super()._get_instance_data()
        except (ConfigurationError, OSError) as error:
            self._problem = error

    def _get_json_data(self) -> Iterator[JsonDict]:
        lines = load_file(self._predictor, self._input_file)
        if self._output_file is None:
            return lines
        return progress(lines, work="predict", unit="lines", total=_number_of_lines(self._input_file))


def _metadata(instance: Instance) -> Any:
    metadata = instance.fields.get("metadata")
    return metadata.metadata if isinstance(metadata, MetadataField) else None


def _inputs(path: str, reader: DatasetReader | None) -> list[str]:
    """
    Returns the files that are read, as far as they are known: a reader that is not ours may read others. If
    there is none, the error comes before an output file is made, and before any line is read.
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
        return sum(bool(line.strip()) for line in open_lines(path)) if os.path.isfile(path) else None
    return None


class LineFile:
    """A file of lines, written as they come. A line that the disk has no space for is removed again."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115

    def write(self, line: str) -> None:
        content = memoryview(line.encode("utf-8"))
        start = self._file.tell() if self._file.seekable() else None
        try:
            while content:
                content = content[self._file.write(content) :]
        except BaseException:
            if start is not None:
                with suppress(OSError):
                    self._file.truncate(start)
                    self._file.seek(start)
            raise

    def close(self) -> None:
        self._file.close()


def open_lines(path: str) -> Iterator[bytes]:
    """Yields the lines of a file, plain or packed, of a URL, or of standard input for `-`."""
    if path == "-":
        yield from raw_lines(standard_input())
    else:
        with open(json_lines_file(path), "rb") as file:
            yield from raw_lines(unpacked(file))


def json_lines_file(path: str) -> str:
    """Returns the local file of a path or URL. `FileNotFoundError`: there is none; `InputError`: a folder."""
    file = str(cached_path(local_or_bundled(path)))
    if os.path.isdir(file):
        raise InputError.at(path, found="a folder", expected="a file of JSON Lines")
    return file


def load_file(predictor: Predictor, path: str) -> Iterator[JsonDict]:
    """Yields the objects of the lines of a file, plain or packed, of a URL, or of standard input for `-`."""
    return load_lines(predictor, open_lines(path), None if path == "-" else path)


def load_lines(predictor: Predictor, lines: Iterable[bytes], source: str | None) -> Iterator[JsonDict]:
    """
    Yields the objects of lines, blank lines left out. An error in a line is raised when one of our predictors
    predicts that line; it names the file `source`, if the lines have one.
    """
    ours = predictor if isinstance(predictor, JsonLinesPredictor) else None
    if ours is not None:
        ours.source = source
    try:
        for line in lines:
            # `load_line` finds the bytes that are not UTF-8 among the characters.
            text = line.decode("utf-8", "surrogateescape" if ours else "strict")
            if text.strip():
                yield predictor.load_line(text)
            elif ours and ours.source is not None:
                ours.lines_read += 1
    except UNREADABLE as error:
        if ours is None:
            raise
        yield ours.unreadable_line(str(error))


def predicted_lines(predictor: Predictor, batch: list[JsonDict]) -> Iterator[str]:
    """Yields the lines of a batch of inputs, in order. Our predictors yield those before a bad input, too."""
    if isinstance(predictor, JsonLinesPredictor):
        results: Iterable[JsonDict] = predictor.predict_each(batch)
    elif len(batch) == 1:
        results = [predictor.predict_json(batch[0])]
    else:
        results = predictor.predict_batch_json(batch)
    return map(predictor.dump_line, results)


def predictor_arguments(text: str) -> dict[str, Any]:
    """Reads the value of `--predictor-args`; `ConfigurationError` if it is no JSON object."""
    try:
        content = json.loads(text.strip() or "{}")
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"--predictor-args is {text!r}, expected JSON: {error}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"--predictor-args is {text!r}, expected a JSON object")
    return content


def predictor_of(archive: Archive, name: str | None, reader: str, arguments: dict[str, Any]) -> Predictor:
    """Makes a predictor with the `reader` `train` or `validation`. Wrong arguments are an error."""
    try:
        predictor = Predictor.from_archive(archive, name, dataset_reader_to_load=reader, extra_args=arguments)
    except TypeError as error:
        if not arguments:
            raise
        raise ConfigurationError(f"--predictor-args: {error}") from error
    if isinstance(predictor, JsonLinesPredictor):
        predictor.in_own_process = True
    return predictor


def get_predictor(arguments: argparse.Namespace) -> Predictor:
    predictor_args = predictor_arguments(arguments.predictor_args)
    if arguments.output_file is not None:
        sources = list(filter(None, (arguments.archive_file, arguments.weights_file)))
        check_sources_stay([arguments.output_file], sources, error=ConfigurationError)
    chosen_device(arguments.cuda_device, option="--cuda-device")
    archive = predict.load_archive(
        arguments.archive_file,
        weights_file=arguments.weights_file,
        cuda_device=arguments.cuda_device,
        overrides=arguments.overrides,
    )
    return predictor_of(archive, arguments.predictor, arguments.dataset_reader_choice, predictor_args)
