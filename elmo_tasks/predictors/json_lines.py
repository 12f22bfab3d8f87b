"""Predicting JSON Lines: an error names the line, and what was predicted before it is written."""

import json
from collections.abc import Iterator
from typing import Any

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_tasks.data.json_lines import shorten


class _Line(JsonDict):
    """The JSON object of a line that remembers where it was, and what is wrong with it."""

    def __init__(self, content: Any, where: str, error: str | None = None) -> None:
        super().__init__(content)
        self.where = where
        self.error = error


class JsonLinesPredictor(Predictor):
    """
    Base class of the tasks' predictors. A task says how a JSON object becomes an instance
    (`_json_to_instance`), and what the result is for an input that there is nothing to predict for.

    AllenNLP reads a whole batch of lines before it predicts it, and stops at the first bad line: the good
    lines of that batch would be lost. Here a bad line is kept in its place, and raises when its turn comes.
    """

    def __init__(self, model: Model, dataset_reader: DatasetReader, frozen: bool = True) -> None:
        super().__init__(model, dataset_reader, frozen)
        self._lines = 0

    def empty_result(self, json_dict: JsonDict) -> JsonDict | None:
        """The result for an input without content, or `None` to run the model."""
        return None

    def load_line(self, line: str) -> JsonDict:
        """The object of a line. What is wrong with the line is raised when it is predicted."""
        self._lines += 1
        where = f"line {self._lines} (blank lines not counted)"
        try:
            content = json.loads(line)
        except json.JSONDecodeError as error:
            return _Line({}, where, f"not JSON ({error}): {shorten(line.strip())}")
        if not isinstance(content, dict):
            return _Line({}, where, f"found {shorten(line.strip())}, expected a JSON object")
        return _Line(content, where)

    def predict_json(self, inputs: JsonDict) -> JsonDict:
        return next(self._predict([inputs]))

    def predict_batch_json(self, inputs: list[JsonDict]) -> Iterator[JsonDict]:
        """The results one by one, in order; those before a bad input come out before it raises."""
        return self._predict(inputs)

    def _predict(self, inputs: list[JsonDict]) -> Iterator[JsonDict]:
        prepared: list[JsonDict | Instance] = []
        problem = None
        for json_dict in inputs:
            try:
                prepared.append(self._prepare(json_dict))
            except ConfigurationError as error:
                problem = error
                break
        instances = [item for item in prepared if isinstance(item, Instance)]
        predicted = iter(self.predict_batch_instance(instances) if instances else [])
        for item in prepared:
            yield next(predicted) if isinstance(item, Instance) else item
        if problem is not None:
            raise problem

    def _prepare(self, json_dict: JsonDict) -> JsonDict | Instance:
        """An instance for the model, or a result that needs none."""
        try:
            if isinstance(json_dict, _Line) and json_dict.error is not None:
                raise ConfigurationError(json_dict.error)
            empty = self.empty_result(json_dict)
            return self._json_to_instance(json_dict) if empty is None else empty
        except ConfigurationError as error:
            if isinstance(json_dict, _Line):
                raise ConfigurationError(f"{json_dict.where}: {error.message}") from error
            raise


def require(json_dict: JsonDict, name: str, kind: type, expected: str) -> Any:
    """
    The value of a field.

    # Raises
    `ConfigurationError` with what was found, if it is missing or of another type.
    """
    if name not in json_dict:
        found = ", ".join(f'"{key}"' for key in json_dict) or "none"
        raise ConfigurationError(f"found the fields: {found}; expected {expected}")
    if not isinstance(json_dict[name], kind):
        found = shorten(json.dumps(json_dict[name]))
        raise ConfigurationError(f'"{name}" is {found}; expected {expected}')
    return json_dict[name]


def require_tokens(json_dict: JsonDict, expected: str, name: str = "tokens") -> list[str]:
    """
    The value of the field `name`.

    # Raises
    `ConfigurationError` with what was found, if it is no list of strings.
    """
    words = require(json_dict, name, list, expected)
    for position, word in enumerate(words):
        if not isinstance(word, str):
            raise ConfigurationError(f'"{name}" has {word!r} at position {position}; expected strings')
    return words
