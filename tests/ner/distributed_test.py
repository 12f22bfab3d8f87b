"""A training on two machines, which are processes here."""

from functools import partial
from pathlib import Path

import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive

from elmo_tasks.ner.model import NerModel
from tests.conftest import SMALL_NER_ELMO
from tests.language_model.runs import die, metrics_of, train_nodes, weights_of
from tests.ner.archives import DEV

pytestmark = pytest.mark.slow

OVERRIDES = SMALL_NER_ELMO | {
    "train_data_path": DEV,
    "validation_data_path": DEV,
    "model.hidden_sizes": [8],
    "trainer.num_epochs": 3,
}


def test_processes_that_have_not_as_many_batches(ner_config, tmp_path):
    """5 and 4 sentences; 2 and 1 for evaluation, which shows its progress in the first process alone."""
    _, *sentences = Path(DEV).read_text().split("\n\n")  # the first is the line of a document
    for name, number in (("train", 9), ("dev", 3)):
        (tmp_path / name).write_text("\n\n".join(sentences[:number]) + "\n")
    overrides = OVERRIDES | {
        "train_data_path": str(tmp_path / "train"),
        "validation_data_path": str(tmp_path / "dev"),
        "data_loader.batch_sampler.batch_size": 1,
        "validation_data_loader.batch_sampler.batch_size": 1,
        "trainer.learning_rate_scheduler": {"type": "linear_with_warmup", "warmup_steps": 2},
    }
    first, second = train_nodes(tmp_path, overrides, config=str(ner_config))
    for name, weight in weights_of(first).items():
        assert torch.equal(weights_of(second)[name], weight), name


def test_metrics_are_those_of_one_process_and_a_kill_changes_nothing(ner_config, tmp_path):
    run = partial(train_nodes, overrides=OVERRIDES, config=str(ner_config))
    whole = run(tmp_path / "whole")
    for folder in whole:
        metrics = metrics_of(folder)
        alone = evaluate_from_archive(folder / "model.tar.gz", DEV)
        for name in ("accuracy", "precision", "recall", "f1"):
            assert metrics[f"best_validation_{name}"] == pytest.approx(alone[name], abs=1e-6), name
    # In the second epoch
    run(tmp_path / "run", meddle={1: partial(die, NerModel, update=3)}, status=1)
    for expected, found in zip(whole, run(tmp_path / "run", recover=True), strict=True):
        assert metrics_of(found) == metrics_of(expected)
        for name, weight in weights_of(expected).items():
            assert torch.equal(weights_of(found)[name], weight), name
