"""Tiny models of the tasks, with random weights, as predictors."""

import json
from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.models.archival import archive_model
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
    "sentence": {"size": 16, "head_size": 8},
    "mrpc": {"hidden_sizes": [8]},
}
"""The predictors of the configs, by their names."""


def predictor_of(config: str, **changes: Any) -> Predictor:
    """Returns a predictor of `CONFIG_elmo` with large weights, so that predictions differ."""
    params = params_of(config, changes)
    reader = DatasetReader.from_params(params["dataset_reader"])
    model = model_of(params, reader, seed=3)
    return Predictor.by_name(type(model).default_predictor)(model, reader)


def write_archive(folder: Path, config: str = "sst", *, seed: int = 0, **changes: Any) -> Path:
    """Writes the folder of a run of `CONFIG_elmo`, as `allennlp train` would; returns its `model.tar.gz`."""
    params = params_of(config, changes)
    folder.mkdir(parents=True)
    params.to_file(str(folder / "config.json"))
    model = model_of(params, DatasetReader.from_params(params["dataset_reader"]), seed)
    model.vocab.save_to_files(str(folder / "vocabulary"))
    torch.save(model.state_dict(), folder / "best.th")
    archive_model(folder)
    return folder / "model.tar.gz"


def params_of(config: str, changes: dict[str, Any]) -> Params:
    """Returns a config with small sizes and changes of its `model` block."""
    sizes = {
        "text_field_embedder.token_embedders.tokens.embedding_dim": 8,
        **SIZES.get(config, {"hidden_sizes": [8]}),
        **changes,
    }
    overrides = {f"model.{name}": value for name, value in sizes.items()}
    if config != "mrpc":  # whose biLM reads words
        overrides |= TINY_ELMO
    path = bundled(f"training_configs/{config}_elmo.jsonnet")
    return Params.from_file(str(path), json.dumps(overrides))


def model_of(params: Params, reader: DatasetReader, seed: int) -> Model:
    instances = indexed(reader, reader.read(params["train_data_path"]))
    vocab = Vocabulary.from_instances(instances, min_count={"tokens": 2})
    torch.manual_seed(seed)
    model = Model.from_params(params["model"], vocab=vocab).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("elmo."):
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model
