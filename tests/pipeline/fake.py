"""A predictor's model and instances, as much of them as the base classes meet."""

from collections.abc import Sized
from typing import Any

from allennlp.common import JsonDict
from allennlp.data import DatasetReader, Instance, Vocabulary
from allennlp.data.fields import MetadataField
from torch import nn


class Counting:
    """A mix-in: an instance holds the length of what is read, the model doubles it; batches are listed."""

    batches: list[int]

    def __init__(
        self, *, reader: DatasetReader | None = None, vocab: Vocabulary | None = None, **options: Any
    ) -> None:
        model = nn.Linear(1, 1)
        model.vocab = vocab
        super().__init__(model, reader, **options)
        self.batches = []

    def to_instance(self, content: Sized) -> Instance:
        return Instance({"length": MetadataField(len(content))})

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        self.batches.append(len(instances))
        return [{"doubled": 2 * instance["length"].metadata} for instance in instances]
