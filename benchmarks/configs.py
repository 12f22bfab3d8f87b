"""Configs of the project, and parts of the peers' configs."""

import argparse
import copy
import json
from collections.abc import Mapping
from typing import Any

from allennlp.common import Params
from allennlp.data import DatasetReader

from elmo_tasks.common.files import bundled

Settings = dict[str, Any]
"""A config."""


def read_config(name: str, overrides: Mapping[str, Any]) -> Settings:
    """A config of the project."""
    path = str(bundled(f"training_configs/{name}.jsonnet"))
    return Params.from_file(path, json.dumps(overrides)).as_dict(quiet=True)


class Merged(argparse.Action):
    """Merges the JSON objects of a repeated option; a later key replaces an earlier one."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), **values})


def add_json_argument(parser: argparse.ArgumentParser, option: str, whose: str) -> None:
    parser.add_argument(option, type=json.loads, action=Merged, default={}, metavar="JSON", help=whose)


def add_dev_tags(settings: Settings) -> None:
    """To the vocabulary of a config of ours: a peer stops at a tag that its training data does not have."""
    reader = DatasetReader.from_params(Params(copy.deepcopy(settings["dataset_reader"])))
    tags = {tag for instance in reader.read(settings["validation_data_path"]) for tag in instance["tags"]}
    settings["vocabulary"]["tokens_to_add"] = {"labels": sorted(tags)}


def bilstm(size: int, hidden: int, **settings: Any) -> Settings:
    """AllenNLP's block of one."""
    return {"type": "lstm", "input_size": size, "hidden_size": hidden, "bidirectional": True, **settings}


def feedforward(size: int, *sizes: int, dropout: Any = 0.0, last: str = "relu") -> Settings:
    """AllenNLP's block of one; all layers have ReLU but the last."""
    return {
        "input_dim": size,
        "num_layers": len(sizes),
        "hidden_dims": list(sizes),
        "activations": ["relu"] * (len(sizes) - 1) + [last],
        "dropout": dropout,
    }


def with_stock_training(
    peer: Settings, *, metric: str, optimizer: str | None = "adam", **batches: Any
) -> Settings:
    """Replaces our own batching and training by AllenNLP's."""
    for loader in ("data_loader", "validation_data_loader"):
        sampler = peer[loader]["batch_sampler"]
        sampler.pop("group", None)
        sampler |= {"type": "bucket", **batches}
    peer["trainer"] |= {"validation_metric": metric, "checkpointer": {}}
    if optimizer:
        peer["trainer"]["optimizer"]["type"] = optimizer
    return peer
