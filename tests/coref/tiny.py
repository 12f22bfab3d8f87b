"""A small model, and batches of documents."""

import json
from typing import Any

import torch
from allennlp.common import Params
from allennlp.data import DatasetReader, Instance, Vocabulary
from allennlp.models import Model

from elmo_tasks.common.files import bundled
from elmo_tasks.coref.documents import CorefDocument
from tests.conftest import TINY_ELMO
from tests.modules.models import indexed, tensors

SIZES = {
    "text_field_embedder.token_embedders.tokens.embedding_dim": 7,
    "text_field_embedder.token_embedders.token_characters.encoder.num_filters": 2,
    "hidden_sizes": [5],
    "feedforward_sizes": [6, 4],
    "feature_dim": 3,
    "max_span_width": 4,
    "max_antecedents": 5,
    "lexical_dropout": 0.0,
    "dropout": 0.0,
}


class Tiny:
    """A model of the shipped config with small layers, for the documents of the fixtures."""

    def __init__(self, config: str = "coref", **changes: Any) -> None:
        overrides = {f"model.{key}": value for key, value in (SIZES | changes).items()}
        overrides |= TINY_ELMO if config == "coref_elmo" else {}
        settings = Params.from_file(str(bundled(f"training_configs/{config}.jsonnet")), json.dumps(overrides))
        self.reader = DatasetReader.from_params(settings["dataset_reader"])
        self.instances = indexed(self.reader, self.reader.read(bundled("fixtures/coref/train.conll")))
        self.vocab = Vocabulary.from_instances(self.instances)
        torch.manual_seed(1)
        self.model = Model.from_params(settings["model"], vocab=self.vocab).eval()

    def instance(self, document: CorefDocument) -> Instance:
        return indexed(self.reader, [self.reader.text_to_instance(document)])[0]

    def batch(self, *instances: Instance) -> dict[str, Any]:
        return tensors(list(instances), self.vocab)

    def scores(self, instance: Instance) -> dict[str, torch.Tensor]:
        fields = self.batch(instance)
        del fields["metadata"]
        return self.model.scores(**fields)
