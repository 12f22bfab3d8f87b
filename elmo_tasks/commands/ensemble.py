"""`allennlp elmo ensemble`: archives of one task to one archive that decodes from their averaged scores."""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.common.meta import META_NAME, Meta
from allennlp.models.archival import CONFIG_NAME, archive_model

from elmo_tasks.commands.base import Verb, add_archive_argument
from elmo_tasks.commands.staging import add_output_argument, staged_file
from elmo_tasks.elmo import FrozenBiLm, TrainedBiLm
from elmo_tasks.modules.ensemble import EnsembleModel, open_members

WEIGHTS = "weights.th"

COPIED_KEYS = (
    "dataset_reader",
    "validation_dataset_reader",
    "vocabulary",
    "data_loader",
    "validation_data_loader",
    "evaluation",
    "random_seed",
    "numpy_seed",
    "pytorch_seed",
)
"""What `evaluate` and `predict` read of a config, beside the model."""


class Ensemble(Verb):
    """See `write_ensemble`."""

    name = "ensemble"
    help = "Several archives of one task, as one archive."
    description = """Writes one archive that evaluate and predict take like any other, and that decodes from
        the averaged scores of several models of one task. It needs their archives no more. Equal biLMs are
        stored, and run, once."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_archive_argument(parser, "archives", nargs="+")
        add_output_argument(
            parser, "-o", "--output", metavar="OUT", help="tar.gz file to write", required=True
        )

    def run(self, arguments: argparse.Namespace) -> None:
        output: Path = arguments.output
        with staged_file(output, force=arguments.force) as path:
            archives = open_members(arguments.archives)
            members = [archive.model for archive in archives]
            model = EnsembleModel(vocab=members[0].vocab, members=members)
            write_ensemble(path, model, [archive.config for archive in archives])
        bilms = {module for module in model.modules() if isinstance(module, FrozenBiLm | TrainedBiLm)}
        print(f"{output}: {len(archives)} members, distinct biLMs: {len(bilms)}")


def write_ensemble(path: Path, model: EnsembleModel, configs: list[Params]) -> None:
    """Writes the archive of an ensemble to a folder of its own, with the configs of its members."""
    folder = path.parent
    members = [config.as_dict(quiet=True) for config in configs]
    config: dict[str, Any] = {key: members[0][key] for key in COPIED_KEYS if key in members[0]}
    config["model"] = {"type": "elmo_ensemble", "members": [member["model"] for member in members]}
    (folder / CONFIG_NAME).write_text(json.dumps(config, indent=2), encoding="utf-8")
    Meta.new().to_file(folder / META_NAME)
    model.vocab.save_to_files(str(folder / "vocabulary"))
    # PyTorch writes a tensor once that the state dict has under several names.
    torch.save(model.state_dict(), folder / WEIGHTS)
    archive_model(folder, weights=WEIGHTS, archive_path=path)
