"""Results as the rows of a csv or tsv file: the columns of the input, and the labels, entities or answers."""

import csv
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO, Any

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance

from elmo_tasks.pipeline.predictor import InputRecord, TaskPredictor

DELIMITERS = {".csv": ",", ".tsv": "\t"}
"""The delimiter of a file, by its suffix."""
_ENTITIES, _NO_PREDICTION = "entities", "no_prediction"
_LISTS = ("probabilities", "n_best", "tags")


def is_csv(path: str, predictor: TaskPredictor) -> bool:
    """Tells whether a file is a table by its name; `ConfigurationError` if the results do not fit in one."""
    if Path(path).suffix.lower() not in DELIMITERS:
        return False
    if not predictor.columns:
        problem = f"the results of {predictor.task()} are no table; name a .jsonl file"
        raise ConfigurationError(f"{path}: {problem}")
    return True


class CsvWriter:
    """
    A writer of results to an open csv or tsv file.

    A label or an answer is a row: the columns of the input, and the predictor's `columns`. Each entity is a
    row: `record`, the number of the input from 1, its ids, and the `columns`. A column of a result gets the
    prefix `predicted_` if the input has one of the same name. The first input decides the header. Where no
    class has `min_probability`, the label is empty, and the probability is that of the likeliest class.

    # Raises
    `ConfigurationError`: an input has a field that the first one lacks, or both `label` and
    `predicted_label`, or the like.
    """

    def __init__(self, file: IO[str], path: Path, predictor: TaskPredictor) -> None:
        self._path, self._columns = path, predictor.columns
        self._writer = csv.writer(file, delimiter=DELIMITERS[path.suffix.lower()], lineterminator="\n")
        self._given: list[str] | None = None
        self._records = 0

    def __call__(self, record: InputRecord, output: JsonDict) -> None:
        self._records += 1
        given = self._input(record, output)
        if self._given is None:
            self._given = list(given)
            names = [f"predicted_{name}" if name in given else name for name in self._columns]
            self._check_new(names, given)
            self._writer.writerow([*self._given, *names])
        if new := [name for name in given if name not in self._given]:
            problem = f"record {self._records} has {new[0]!r}, which the first one lacks"
            raise ConfigurationError(f"{self._path}: {problem}; a .jsonl file may have any fields")
        cells = [given.get(name) for name in self._given]
        for result in self._results(output):
            self._writer.writerow([*cells, *(result.get(name) for name in self._columns)])

    def _input(self, record: InputRecord, output: JsonDict) -> dict[str, Any]:
        """Returns the cells of an input; for an instance, also why there is no prediction."""
        own = {*self._columns, *_LISTS, _NO_PREDICTION}
        if "entity" in self._columns:
            ids = {name: value for name, value in output.items() if not isinstance(value, list)}
            cells = {"record": self._records, **_cells(ids, own)}
        elif record.row is not None:
            cells = _cells(record.row)
        elif isinstance(record.content, dict):
            cells = _cells(record.content)
        else:
            cells = _cells(output, own)
        if isinstance(record.content, Instance):
            self._check_new([_NO_PREDICTION], cells)
            cells[_NO_PREDICTION] = output.get(_NO_PREDICTION)
        return cells

    def _check_new(self, names: Sequence[str], given: Collection[str]) -> None:
        if twice := [name for name in names if name in given]:
            problem = f"the input has a column {twice[0]!r} already; give it another name"
            raise ConfigurationError(f"{self._path}: {problem}, or write a .jsonl file")

    def _results(self, output: JsonDict) -> Sequence[JsonDict]:
        if _ENTITIES in output:
            return [{**entity, "entity": entity["text"]} for entity in output[_ENTITIES]]
        if "labels" in output:
            return [{"labels": "|".join(output["labels"])}]
        if probabilities := output.get("probabilities"):
            return [{**output, "probability": max(probabilities.values())}]
        return [output]


def _cells(values: JsonDict, without: Collection[str] = ()) -> dict[str, Any]:
    return {name: _cell(value) for name, value in values.items() if name not in without}


def _cell(value: Any) -> Any:
    """Returns a value as a cell: a list of words joined by blanks, and other lists and objects as JSON."""
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(value)
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else value
