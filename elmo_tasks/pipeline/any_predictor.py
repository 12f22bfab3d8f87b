"""Any predictor of AllenNLP, behind the interface of ours."""

import inspect
import json
from collections.abc import Sequence
from functools import partial

from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.pipeline.predictor import (
    InputRecord,
    Result,
    TaskPredictor,
    attempt,
    check_tokens,
    results_of_allennlp,
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
    JSON object if it has none, one by one.
    """

    records_at_once = 1

    def __init__(self, predictor: Predictor) -> None:
        super().__init__(predictor._model, predictor._dataset_reader)
        parameters = inspect.signature(getattr(predictor, "predict", lambda: None)).parameters.values()
        texts = [
            each.name for each in parameters if each.default is each.empty and each.kind != each.VAR_KEYWORD
        ]
        self.predictor, self.forms = predictor, (dict.fromkeys(texts, str),)
        self.load_line, self.dump_line = predictor.load_line, predictor.dump_line  # type: ignore[method-assign]
        self.__doc__ = inspect.getdoc(type(predictor))

    def task(self) -> str:
        """Returns the registered name of the predictor."""
        return next(
            name for name in Predictor.list_available() if Predictor.by_name(name) is type(self.predictor)
        )

    def results(self, records: Sequence[InputRecord], max_tokens: int | None = None) -> list[Result]:
        result = partial(self._result, max_tokens)
        return [with_place(attempt(result, record.content), record.where) for record in records]

    def to_instance(self, content: JsonDict) -> Instance:
        return self.predictor._json_to_instance(content)

    def _result(self, max_tokens: int | None, json_dict: JsonDict) -> JsonResult:
        check_tokens(len(json.dumps(json_dict).split()), max_tokens)
        return JsonResult(*results_of_allennlp(self.predictor, [json_dict]))
