"""Folders of runs that were never trained, of a small NER model."""

import json
from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model

import elmo_tasks  # noqa: F401
from tests.elmo.files import make_files


def make_run(folder: Path, scores: dict[str, list[float]] | None, **elmo: Any) -> Path:
    """A model with the block `elmo`, and these scores of its mixes; without ELMo if `scores` is `None`."""
    folder.mkdir()
    options_file, weight_file = make_files(folder / "bilm")
    model: dict[str, Any] = {
        "type": "elmo_ner",
        "text_field_embedder": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 3}}},
        "hidden_sizes": [4],
        "dropout": 0.0,
    }
    if scores is not None:
        model["elmo"] = {"options_file": str(options_file), "weight_file": str(weight_file), **elmo}
    vocab = Vocabulary(non_padded_namespaces=["labels"])
    for label in ("O", "U-PER"):
        vocab.add_token_to_namespace(label, "labels")
    vocab.add_token_to_namespace("the", "tokens")
    vocab.save_to_files(str(folder / "vocabulary"))
    config = {"dataset_reader": {"type": "elmo_ner"}, "model": model}
    (folder / "config.json").write_text(json.dumps(config))
    built = Model.from_params(Params(config["model"]), vocab=vocab)
    with torch.no_grad():
        for representation, given in (scores or {}).items():
            built.elmo.mixes[representation].scores.copy_(torch.tensor(given))
            built.elmo.mixes[representation].gamma.fill_(1.5)
    torch.save(built.state_dict(), folder / "best.th")
    return folder
