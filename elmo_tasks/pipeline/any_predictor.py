"""Any predictor of AllenNLP, behind the interface of ours."""

import inspect
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.pipeline.predictor import (
    InputRecord,
    Result,
    TaskPredictor,
    attempt,
    check_tokens,
    with_place,
)
from elmo_tasks.pipeline.results import TaskResult


class JsonResult(TaskResult):
    """The JSON object that a predictor returns."""

    def __init__(self, content: JsonDict) -> None:
        self._content = content

    def to_json(self) -> JsonDict:
        return self._content


class AnyPredictor(TaskPredictor):
    """
    A predictor of AllenNLP or of another package. It reads the texts that its method `predict` takes, or any
    JSON object if it has none; one by one, since its results may depend on the batch.
    """

    records_at_once = 1

    def __init__(self, predictor: Predictor) -> None:
        super().__init__(predictor._model, predictor._dataset_reader)
        parameters = inspect.signature(getattr(predictor, "predict", lambda: None)).parameters.values()
        texts = [
            each.name for each in parameters if each.default is each.empty and each.kind != each.VAR_KEYWORD
        ]
        self.predictor, self.forms = predictor, (dict.fromkeys(texts, str),)
        self._dataset_reader = predictor._dataset_reader
        self.load_line, self.dump_line = predictor.load_line, predictor.dump_line  # type: ignore[method-assign]
        self.__doc__ = inspect.getdoc(type(predictor))

    def results(self, records: Sequence[InputRecord], max_tokens: int | None = None) -> list[Result]:
        results = [attempt(partial(_checked, max_tokens), record.content) for record in records]
        predictable = [index for index, each in enumerate(results) if not isinstance(each, Exception)]
        predicted = self._run_batch([results[index] for index in predictable])
        for index, result in zip(predictable, predicted, strict=True):
            results[index] = result
        return [with_place(result, record.where) for result, record in zip(results, records, strict=True)]

    def run(self, instances: list[Any]) -> list[JsonResult]:
        """Returns the results of instances, or of JSON objects; `ConfigurationError`: one lacks a field."""
        first = next(iter(instances), None)
        predictor = self.predictor
        # A third-party predictor may implement either the function for one input or that for several.
        if isinstance(first, Instance):
            one, several = predictor.predict_instance, predictor.predict_batch_instance
        else:
            one, several = predictor.predict_json, predictor.predict_batch_json
        try:
            outputs = [one(first)] if len(instances) == 1 else several(instances) if instances else []
        except KeyError as error:
            if isinstance(first, dict) and any(error.args[0] not in content for content in instances):
                raise ConfigurationError(f"the input has no field {error}") from error
            raise
        return list(map(JsonResult, outputs))

    def task(self) -> str:
        """Returns the registered name of the predictor."""
        return next(
            name for name in Predictor.list_available() if Predictor.by_name(name) is type(self.predictor)
        )

    def to_instance(self, content: JsonDict) -> Instance:
        return self.predictor._json_to_instance(content)


def _checked(max_tokens: int | None, content: JsonDict | Instance) -> JsonDict | Instance:
    if isinstance(content, dict):
        check_tokens(len(json.dumps(content).split()), max_tokens)
    return content


def as_task_predictor(predictor: Predictor) -> TaskPredictor:
    """Returns a predictor of ours as it is, and another one behind the interface of ours."""
    return predictor if isinstance(predictor, TaskPredictor) else AnyPredictor(predictor)
