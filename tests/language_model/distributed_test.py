"""Two workers of a distributed training and one process."""

import pytest
import torch

from elmo_tasks.language_model import model
from tests.language_model.runs import metrics_of, train, weights_of, write_text

TWO = {"distributed": {"cuda_devices": [-1, -1]}}


def count_all_targets():
    """In training too, as in evaluation."""
    model.TRAINING_TARGETS = 1000


def test_two_workers_are_one_with_twice_the_lanes(tmp_path):
    """
    Passages of one length, so that the same ones are read together. The text to be evaluated has an odd
    number of them: the worker with fewer goes on without text, and none of it is left out.
    """
    train_data_path = write_text(tmp_path / "train", passages=24, seed=1, words=6)
    rare = (tmp_path / "train").read_text().replace("a", "rare", 1)
    (tmp_path / "train").write_text(rare)
    overrides = {
        "train_data_path": train_data_path,
        "validation_data_path": write_text(tmp_path / "dev", passages=5, seed=2),
        "dataset_reader.shuffle_buffer": 0,
        "validation_dataset_reader.streams": 1,
        "model.dropout": 0.0,
        # A cluster of the rare word, which most blocks of a worker have not.
        "model.softmax": {"type": "adaptive", "cutoffs": [13], "div_value": 2},
    }
    assert "finishing" not in train(tmp_path / "two", overrides | TWO, meddle=count_all_targets)
    train(tmp_path / "one", overrides | {"dataset_reader.streams": 8}, meddle=count_all_targets)
    expected, found = metrics_of(tmp_path / "one"), metrics_of(tmp_path / "two")
    # That of AllenNLP is a mean over blocks, of which two workers have others.
    names = {name for name in expected if not name.endswith("validation_loss")}
    assert names == {name for name in found if not name.endswith("validation_loss")}
    for name in names:
        assert found[name] == pytest.approx(expected[name], rel=1e-5), name
    one, two = weights_of(tmp_path / "one"), weights_of(tmp_path / "two")
    for name in one.keys() & {name for name in two if name.startswith(("bilm", "softmax"))}:
        torch.testing.assert_close(two[name], one[name], atol=1e-5, rtol=1e-4)
