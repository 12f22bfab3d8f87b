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
from tests.elmo.files import block_of, make_files
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
    config["model"]["elmo"] |= block_of(bilm) | elmo
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


def make_run(folder: Path, scores: dict[str, list[float]] | None, **elmo: Any) -> Path:
    """The folder of a run with these scores of its mixes, or without ELMo; with a biLM of its own."""
    bilm = folder.with_name(f"{folder.name} bilm")
    make_files(bilm)
    placement = {} if scores is not None else {"placement": "none"}
    model = write_run(folder, seed=1, bilm=bilm, hidden_sizes=(4,), **{"mix_l2": None} | placement | elmo)
    with torch.no_grad():
        for representation, given in (scores or {}).items():
            model.elmo.mixes[representation].scores.copy_(torch.tensor(given))
            model.elmo.mixes[representation].gamma.fill_(1.5)
    torch.save(model.state_dict(), folder / "best.th")
    return folder


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
