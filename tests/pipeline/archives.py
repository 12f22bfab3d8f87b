"""Tiny models of the tasks, with random weights, as predictors."""

import json
from typing import Any

import torch
from allennlp.common import Params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.predictors import Predictor

import elmo_tasks  # noqa: F401 (registers the tasks)
from elmo_tasks.common.files import bundled
from tests.conftest import TINY_ELMO
from tests.modules.models import indexed

SIZES: dict[str, dict[str, Any]] = {
    "ner": {"hidden_sizes": [8], "text_field_embedder.token_embedders.token_characters.num_filters": 4},
    "coref": {"hidden_sizes": [8], "feedforward_sizes": [8], "max_span_width": 4},
    "squad": {
        "hidden_size": 8,
        "linear_size": 8,
        "text_field_embedder.token_embedders.token_characters.num_filters": 4,
    },
    "snli": {"hidden_size": 8},
    "srl": {"hidden_size": 8, "num_layers": 2, "predicate_dim": 4},
    "sst": {"projection_size": 8, "hidden_size": 8, "classifier_sizes": [8]},
    "agnews": {"hidden_sizes": [8]},
    "mrpc": {"hidden_sizes": [8]},
}
"""The predictors of the configs, by their names."""


def predictor_of(config: str, **changes: Any) -> Predictor:
    """Returns a predictor of `CONFIG_elmo` with large weights, so that predictions differ."""
    sizes = {
        "text_field_embedder.token_embedders.tokens.embedding_dim": 8,
        **SIZES.get(config, {"hidden_sizes": [8]}),
        **changes,
    }
    overrides = {f"model.{name}": value for name, value in sizes.items()}
    if config != "mrpc":  # whose biLM reads words
        overrides |= TINY_ELMO
    path = bundled(f"training_configs/{config}_elmo.jsonnet")
    params = Params.from_file(str(path), json.dumps(overrides))
    reader = DatasetReader.from_params(params["dataset_reader"])
    instances = indexed(reader, reader.read(params["train_data_path"]))
    vocab = Vocabulary.from_instances(instances, min_count={"tokens": 2})
    torch.manual_seed(3)
    model = Model.from_params(params["model"], vocab=vocab).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("elmo."):
                parameter.add_(0.3 * torch.randn_like(parameter))
    return Predictor.by_name(type(model).default_predictor)(model, reader)
