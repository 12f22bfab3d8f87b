"""Tiny SQuAD models and their batches."""

import copy
import json
from functools import cache
from typing import Any

import torch
from allennlp.common import Params
from allennlp.data import DatasetReader, Instance, Vocabulary
from allennlp.models import Model

from elmo_tasks.common.files import bundled
from elmo_tasks.squad.model import SquadModel
from tests.conftest import TINY_ELMO
from tests.modules.models import indexed, tensors

DEV = str(bundled("fixtures/squad/dev.json").resolve())
UNANSWERABLE = str(bundled("fixtures/squad/unanswerable.json").resolve())
TINY = {
    "model.text_field_embedder.token_embedders.tokens.embedding_dim": 6,
    "model.text_field_embedder.token_embedders.token_characters.embedding_dim": 3,
    "model.text_field_embedder.token_embedders.token_characters.num_filters": 4,
    "model.hidden_size": 5,
    "model.linear_size": 8,
    "model.dropout": 0.0,
    **TINY_ELMO,
}
"""Overrides of `squad_elmo`, too."""


def config(**model: Any) -> dict[str, Any]:
    """That of `squad_elmo` with tiny sizes, the fixtures' biLM, and changes of the model."""
    settings = json.loads(_config())
    settings["model"] |= model
    settings["dataset_reader"]["unanswerable"] = settings["model"]["no_answer"]
    return settings


@cache
def _config() -> str:
    path = str(bundled("training_configs/squad_elmo.jsonnet"))
    return json.dumps(Params.from_file(path, json.dumps(TINY)).as_dict(quiet=True))


def build(settings: dict[str, Any], data: str = DEV, seed: int = 0) -> tuple[SquadModel, list[Instance]]:
    """A model with weights at random, so large that its answers are certain, and the instances of a file."""
    params = Params(copy.deepcopy(settings))
    reader = DatasetReader.from_params(params["dataset_reader"])
    instances = indexed(reader, reader.read(data))
    vocab = Vocabulary.from_instances(instances, min_count={"tokens": 2})
    torch.manual_seed(seed)
    model = Model.from_params(params["model"], vocab=vocab)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".bilm." not in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval(), instances


def batch(model: Model, instances: list[Instance]) -> dict[str, Any]:
    return tensors(instances, model.vocab)
