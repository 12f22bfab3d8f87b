"""Answers of a service: the line that `allennlp predict` writes and the names of its labels, or a refusal."""

import json
import logging
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.pipeline.explanations import Explainer, can_explain
from elmo_tasks.pipeline.predictor import InputRecord, Result, TaskPredictor, attempt

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Limits:
    max_bytes: int = 1 << 20
    """Of a request."""
    max_tokens: int = 10_000
    """Of an input, and of a batch."""
    max_queue: int = 256
    """The inputs of a model that are read, wait or are predicted."""
    max_connections: int = 1024
    """At most half of the files that the process may open."""
    max_connections_of_client: int = 256
    timeout: int = 60
    """Seconds for the headers of a request, for its body, and for the answer."""
    batch_size: int = 32
    batch_wait: float = 0.002
    """Seconds for which an incomplete batch waits for more inputs."""


class Refusal(NamedTuple):
    """An HTTP status, and the reason why an input has no answer."""

    status: int
    reason: str


class Query(NamedTuple):
    """An input, to be answered as `allennlp predict` or `allennlp elmo explain` does."""

    content: JsonDict
    explain: bool = False


Reply: TypeAlias = str | Refusal


class Answers:
    """A predictor that answers batches of queries, and refuses single ones."""

    def __init__(self, predictor: TaskPredictor, limits: Limits) -> None:
        predictor.may_set_threads = True
        self._predictor = predictor
        self._limits = limits

    def __call__(self, queries: list[Query]) -> list[Reply]:
        records = [InputRecord(attempt(self._predictor.check_fields, query.content)) for query in queries]
        results = self._predictor.results(records, self._limits.max_tokens)
        return [
            self._explained(query.content)
            if query.explain and not isinstance(result, Exception)
            else self._answer(result, query.content)
            for query, result in zip(queries, results, strict=True)
        ]

    def _explained(self, content: JsonDict) -> Reply:
        if not can_explain(self._predictor):
            return Refusal(422, "the model cannot be explained")
        explained = attempt(Explainer(self._predictor), content)
        if isinstance(explained, Exception):
            return self._answer(explained, content)
        return json.dumps(explained, ensure_ascii=False)

    def _answer(self, result: Result, content: JsonDict) -> Reply:
        if isinstance(result, ConfigurationError | ElmoError):
            return Refusal(422, str(result))
        if isinstance(result, Exception):
            logger.error("the model failed", exc_info=result)
            return Refusal(500, "the model failed on this input; the log of the service has the error")
        answer = {**self._predictor.ids(content), **self._predictor.to_json(result)}
        if names := result.label_names:
            answer = {**answer, "label_names": names}
        return self._predictor.dump_line(answer).rstrip("\n")
