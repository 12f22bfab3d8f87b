"""Runs of tiny NER models, as `allennlp train` would leave them."""

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model

from elmo_tasks.common.files import bundled
from elmo_tasks.ner.model import NerModel
from tests.modules.models import indexed, tensors

DEV = str(bundled("fixtures/ner/dev.conll").resolve())


def write_run(
    folder: Path, *, seed: int, bilm: Path, hidden_sizes: tuple[int, ...] = (6, 4), **elmo: Any
) -> NerModel:
    """
    The folder of a run, with random weights of the task and the biLM of the folder `bilm`, and its model.
    """
    config = json.loads(_config())
    config["model"] |= {"hidden_sizes": list(hidden_sizes), "dropout": 0.0}
    config["model"]["elmo"] |= {
        "options_file": str(bilm / "options.json"),
        "weight_file": str(bilm / "weights.hdf5"),
        **elmo,
    }
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    vocab = deepcopy(_vocabulary())
    vocab.save_to_files(str(folder / "vocabulary"))
    torch.manual_seed(seed)
    model = Model.from_params(Params(config["model"]), vocab=vocab)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".bilm." not in name:
                parameter.add_(0.5 * torch.randn_like(parameter))
    torch.save(model.state_dict(), folder / "best.th")
    return model.eval()


@cache
def _config() -> str:
    return json.dumps(Params.from_file(str(bundled("training_configs/ner_elmo.jsonnet"))).as_dict(quiet=True))


@cache
def _vocabulary() -> Vocabulary:
    reader = DatasetReader.from_params(Params(json.loads(_config())["dataset_reader"]))
    return Vocabulary.from_instances(reader.read(DEV), min_count={"tokens": 2})


def dev_batch(model: Model, folder: Path, sentences: slice = slice(8)) -> dict[str, Any]:
    """Tagged sentences as the model of a run reads them."""
    config = json.loads((folder / "config.json").read_text())
    reader = DatasetReader.from_params(Params(config["dataset_reader"]))
    return tensors(indexed(reader, list(reader.read(DEV))[sentences]), model.vocab)
