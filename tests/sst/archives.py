"""Archives of small SST models with random weights."""

import json
from pathlib import Path

import torch
from allennlp.common import Params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.models.archival import archive_model

import elmo_tasks.sst  # noqa: F401 (registers the task)
from elmo_tasks.common.files import bundled
from tests.conftest import TINY_ELMO
from tests.modules.models import indexed

SMALL_SST = {"model.projection_size": 6, "model.hidden_size": 5, "model.classifier_sizes": [7]}


def write_archive(folder: Path, *, seed: int = 0, **overrides) -> Path:
    """`model.tar.gz` in `folder`: as `allennlp train` leaves it, without the training."""
    path = str(bundled("training_configs/sst_elmo.jsonnet"))
    params = Params.from_file(path, json.dumps(SMALL_SST | TINY_ELMO | overrides))
    folder.mkdir(parents=True)
    params.to_file(str(folder / "config.json"))
    reader = DatasetReader.from_params(params.pop("dataset_reader"))
    vocab = Vocabulary.from_instances(indexed(reader, reader.read(params["train_data_path"])))
    vocab.save_to_files(str(folder / "vocabulary"))
    torch.manual_seed(seed)
    model = Model.from_params(params.pop("model"), vocab=vocab)
    with torch.no_grad():
        # So that predictions differ from sentence to sentence.
        model.classifier[-1].weight.mul_(50)
    torch.save(model.state_dict(), folder / "best.th")
    archive_model(folder)
    return folder / "model.tar.gz"
