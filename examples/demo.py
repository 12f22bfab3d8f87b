"""Trains small models of all tasks on the fixtures: `make demo` shows them on the page."""

import logging
import sys
import time
from pathlib import Path
from typing import Any

from allennlp.common import Params

from elmo_tasks.common.files import bundled
from elmo_tasks.training.experiments import Run, train

_WORDS = "model.text_field_embedder.token_embedders.tokens.embedding_dim"
_CHARACTERS = "model.text_field_embedder.token_embedders.token_characters.num_filters"
_CHARACTERS_OF_COREF = "model.text_field_embedder.token_embedders.token_characters.encoder.num_filters"
_BATCH = "data_loader.batch_sampler.batch_size"
_RATE = "trainer.optimizer.lr"
MODELS: dict[str, dict[str, Any]] = {
    "ner": {"model.hidden_sizes": [32, 16], "model.dropout": 0.1, _BATCH: 16, _RATE: 0.02, _CHARACTERS: 16},
    "srl": {
        "model.hidden_size": 48,
        "model.num_layers": 2,
        "model.predicate_dim": 16,
        _BATCH: 8,
        "trainer.optimizer": {"type": "elmo_adam", "lr": 0.01},
    },
    "coref": {
        "model.hidden_sizes": [32],
        "model.feedforward_sizes": [32],
        "model.max_span_width": 4,
        "model.lexical_dropout": 0.1,
        "model.dropout": 0.1,
        _CHARACTERS_OF_COREF: 8,
        _RATE: 0.01,
    },
    "squad": {
        "model.hidden_size": 16,
        "model.linear_size": 32,
        _BATCH: 8,
        _CHARACTERS: 16,
        "trainer.optimizer": {"type": "elmo_adam", "lr": 0.005},
        "trainer.moving_average": None,
    },
    "snli": {"model.hidden_size": 32, "model.dropout": 0.1, _BATCH: 8, _RATE: 0.003},
    "sst": {
        "model.projection_size": 32,
        "model.hidden_size": 32,
        "model.classifier_sizes": [32, 16],
        _BATCH: 16,
        _RATE: 0.005,
    },
    "agnews": {"model.hidden_sizes": [32], "model.dropout": 0.1, _BATCH: 8, _RATE: 0.005},
}
"""Changes of the configs with ELMo: smaller models, which learn faster."""
EPOCHS = {"ner": 6, "srl": 8, "coref": 15, "squad": 8, "snli": 8, "sst": 4, "agnews": 6}


def train_missing(folder: Path, **overrides: Any) -> list[Path]:
    """
    Trains the models that `folder` does not have yet, one after the other, and returns the archives of all.
    After a kill, the next call resumes the training.

    # Parameters

    overrides : changes of all configs.

    # Raises
    `ConfigurationError`: see `experiments.train`.
    """
    runs = [Run(name, 13, _config(name, overrides), folder / name) for name in MODELS]
    missing = [run for run in runs if run.metrics() is None]
    start = time.perf_counter()

    def report_run(run: Run) -> None:
        seconds = time.perf_counter() - start
        print(f"{missing.index(run) + 1} of {len(missing)}: {run.variant}, {seconds:.0f} s", flush=True)

    if missing:
        print(f"training {', '.join(run.variant for run in missing)}", flush=True)
    train(runs, jobs=1, packages=(), report=report_run)
    return [run.folder / "model.tar.gz" for run in runs]


def _config(name: str, overrides: dict[str, Any]) -> dict[str, Any]:
    small = {_WORDS: 32, "trainer.num_epochs": EPOCHS[name], "trainer.patience": None}
    path = bundled(f"training_configs/{name}_elmo.jsonnet")
    return Params.from_file(str(path), {**small, **MODELS[name], **overrides}).as_dict(quiet=True)


if __name__ == "__main__":
    logging.getLogger("allennlp").setLevel(logging.WARNING)
    train_missing(Path(sys.argv[1]))
