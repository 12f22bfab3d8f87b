"""What a service answers to each input: a line, as `allennlp predict` writes it, or what is wrong."""

import json
import logging
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.predictors.interpretation import Explainer, InterpretablePredictor, can_explain
from elmo_tasks.predictors.json_lines import JsonLinesPredictor

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """
    The limits that a service sets on requests.

    # Parameters

    max_bytes : of a request.
    max_tokens : of an input, and of what a model reads at once.
    max_queue : inputs of a model that are being read, wait or are predicted.
    timeout : seconds for reading a request, and for answering it.
    batch_size : inputs that a model gets at once.
    batch_wait : seconds for which a batch that is not full waits for more inputs.
    """

    max_bytes: int = 1 << 20
    max_tokens: int = 10_000
    max_queue: int = 256
    timeout: int = 60
    batch_size: int = 32
    batch_wait: float = 0.005


class Refusal(NamedTuple):
    """Why there is no line for an input."""

    status: int
    reason: str


class ToExplain(JsonDict):
    """An input whose line is that of `allennlp elmo explain`, where the model can be explained."""


Answer: TypeAlias = str | Refusal


class Answers:
    """Answers batches of inputs with a predictor."""

    def __init__(self, predictor: JsonLinesPredictor, limits: Limits) -> None:
        self._predictor = predictor
        self._limits = limits

    def __call__(self, inputs: list[JsonDict]) -> list[Answer]:
        answers = list(map(self._answer, self._predictor.answers(inputs, self._limits.max_tokens)))
        for place, content in enumerate(inputs):
            if isinstance(content, ToExplain) and isinstance(answers[place], str):
                answers[place] = self._explained(content)
        return answers

    def _explained(self, content: JsonDict) -> Answer:
        """The answer with explanations, of an input that the model has answered."""
        predictor = self._predictor
        if not isinstance(predictor, InterpretablePredictor) or not can_explain(predictor):
            return Refusal(422, "found a model that cannot be explained")
        try:
            return json.dumps(Explainer(predictor)(content), ensure_ascii=False)
        except Exception as error:
            return self._answer(error)

    def _answer(self, result: JsonDict | Exception) -> Answer:
        if isinstance(result, ConfigurationError | ElmoError):
            return Refusal(422, str(result))
        if isinstance(result, Exception):
            logger.error("the model failed", exc_info=result)
            return Refusal(500, "the model failed at this input; the log of the service says how")
        return self._predictor.dump_line(result).rstrip("\n")
