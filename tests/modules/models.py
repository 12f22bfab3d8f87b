"""Small models for tests, their instances and batches."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.data import Batch, DatasetReader, Instance, Vocabulary
from allennlp.models import Model

from elmo_tasks.commands.ensemble import open_members
from elmo_tasks.common.files import bundled
from elmo_tasks.modules.elmo_model import EnsembleModel
from tests.elmo.files import make_block


def tiny_elmo(config: str, folder: Path, placement: str, **elmo: Any) -> dict[str, Any]:
    """The settings of `training_configs/CONFIG` with a tiny biLM, whose files are made, and no dropout."""
    settings = Params.from_file(str(bundled(f"training_configs/{config}"))).as_dict()
    settings["model"]["elmo"] |= {"placement": placement, "dropout": 0.0, **make_block(folder), **elmo}
    if placement == "none":  # there is no mix
        settings["model"]["elmo"].pop("mix_l2", None)
    return settings


def indexed(reader: DatasetReader, instances: Iterable[Instance]) -> list[Instance]:
    """With the token indexers of their reader."""
    made = list(instances)
    for instance in made:
        reader.apply_token_indexers(instance)
    return made


def read_and_build(settings: dict[str, Any], data: str, count: int) -> tuple[Model, list[Instance]]:
    """The model of a config, and the first instances of a file, whose vocabulary it has."""
    reader = DatasetReader.from_params(Params(settings["dataset_reader"]))
    instances = indexed(reader, islice(reader.read(bundled(data)), count))
    torch.manual_seed(0)
    model = Model.from_params(Params(settings["model"]), vocab=Vocabulary.from_instances(instances))
    return model.eval(), instances


def build(settings: dict[str, Any], instances: list[Instance]) -> Model:
    """The model of a config, for the vocabulary of the instances; with large weights, so that errors show."""
    vocab = Vocabulary.from_instances(instances)
    torch.manual_seed(0)
    model = Model.from_params(Params(settings["model"]), vocab=vocab)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and not name.startswith("elmo."):
                parameter.copy_(0.5 * torch.randn_like(parameter))
    return model.eval()


def ensemble_of(*runs: Path | str) -> EnsembleModel:
    """The ensemble of the models of some runs."""
    members = [archive.model for archive in open_members(list(map(str, runs)))]
    return EnsembleModel(vocab=members[0].vocab, members=members).eval()


def tensors(instances: list[Instance], vocab: Vocabulary) -> dict[str, Any]:
    """One batch."""
    batch = Batch(instances)
    batch.index_instances(vocab)
    return batch.as_tensor_dict()


def check_gradients(model: Model, batch: dict[str, Any]) -> None:
    """Checks that every parameter that is trained has a finite gradient."""
    model.train()(**batch)["loss"].backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name


def check_alone(model: Model, instances: list[Instance]) -> dict[str, Any]:
    """Checks that an instance has the same logits alone and in batches; returns the outputs of one batch."""
    with torch.no_grad():
        together = model(**tensors(instances, model.vocab))
        for row, instance in enumerate(instances):
            alone = model(**tensors([instance], model.vocab))["logits"][0]
            pair = model(**tensors([instances[row - 1], instance], model.vocab))["logits"][1]
            for logits in (alone, pair):
                torch.testing.assert_close(logits, together["logits"][row], rtol=0, atol=1e-5)
    return together
