"""A training on two machines, which are processes here."""

from pathlib import Path

import pytest
import torch

from tests.conftest import SMALL_NER_ELMO
from tests.language_model.runs import train_nodes, weights_of
from tests.ner.archives import DEV

pytestmark = pytest.mark.slow


def test_processes_that_have_not_as_many_batches(ner_config, tmp_path):
    """5 and 4 sentences; 2 and 1 for evaluation, which shows its progress in the first process alone."""
    _, *sentences = Path(DEV).read_text().split("\n\n")  # the first is the line of a document
    for name, number in (("train", 9), ("dev", 3)):
        (tmp_path / name).write_text("\n\n".join(sentences[:number]) + "\n")
    overrides = SMALL_NER_ELMO | {
        "model.hidden_sizes": [8],
        "trainer.num_epochs": 3,
        "train_data_path": str(tmp_path / "train"),
        "validation_data_path": str(tmp_path / "dev"),
        "data_loader.batch_sampler.batch_size": 1,
        "validation_data_loader.batch_sampler.batch_size": 1,
        "trainer.learning_rate_scheduler": {"type": "linear_with_warmup", "warmup_steps": 2},
    }
    first, second = train_nodes(tmp_path, overrides, config=str(ner_config))
    for name, weight in weights_of(first).items():
        assert torch.equal(weights_of(second)[name], weight), name
