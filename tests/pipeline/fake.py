"""A predictor's model and instances, as much of them as the base classes meet."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from allennlp.data import DatasetReader, Instance, Token, Vocabulary
from allennlp.data.fields import TextField
from torch import nn

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
        model.vocab = vocab
        super().__init__(model, reader, **options)
        self.batches = []

    def to_instance(self, content: Iterable[str]) -> Instance:
        return Instance({"text": TextField(list(map(Token, content)))})

    def run(self, instances: list[Instance]) -> list[Doubled]:
        self.batches.append(len(instances))
        return [Doubled(2 * len(instance["text"].tokens)) for instance in instances]
