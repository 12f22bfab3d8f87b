"""A predictor's model and instances, as much of them as the base classes meet."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from allennlp.data import DatasetReader, Instance, Token, Vocabulary
from allennlp.data.fields import TextField
from torch import nn

from elmo_tasks.pipeline.predictor import TaskPredictor, require
from elmo_tasks.pipeline.results import TaskResult


@dataclass
class Doubled(TaskResult):
    doubled: int | None


class Counting:
    """A mix-in: an instance holds what is read as tokens, the model doubles it; batches are listed."""

    batches: list[int]

    def __init__(
        self, *, reader: DatasetReader | None = None, vocab: Vocabulary | None = None, **options: Any
    ) -> None:
        model = nn.Linear(1, 1)
        model.vocab, model._get_prediction_device = vocab, lambda: -1
        super().__init__(model, reader, **options)
        self.batches = []

    def to_instance(self, content: Iterable[str]) -> Instance:
        return Instance({"text": TextField(list(map(Token, content)))})

    def run(self, instances: list[Instance]) -> list[Doubled]:
        self.batches.append(len(instances))
        return [Doubled(2 * len(instance["text"].tokens)) for instance in instances]


class Doubling(Counting, TaskPredictor):
    """Doubles the length of the field `text`, which has a token for each letter; three letters break it."""

    error: type[Exception] = RuntimeError
    forms = ({"text": str},)

    def read(self, json_dict):
        return require(json_dict, "text", str, '"text": a string')

    def empty_result(self, content):
        return Doubled(None) if content == "" else None

    def run(self, instances):
        if any(len(instance["text"].tokens) == 3 for instance in instances):
            raise self.error("three")
        return super().run(instances)
