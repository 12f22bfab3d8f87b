"""Two workers of a distributed training, or two machines, and one process."""

import csv
import os
import signal
import time
from functools import partial
from itertools import count

import pytest
import torch

from elmo_tasks.language_model import BiLmModel, model
from elmo_tasks.language_model.callbacks import FILE_NAME
from elmo_tasks.language_model.metric import DIRECTIONS
from tests.language_model.runs import SMALL, die, metrics_of, train, train_nodes, weights_of, write_text

TWO = {"distributed": {"cuda_devices": [-1, -1]}}


def count_all_targets():
    """In training too, as in evaluation."""
    model.TRAINING_TARGETS = 1000


@pytest.mark.parametrize("machines", [1, 2])
def test_two_workers_are_one_with_twice_the_lanes(tmp_path, machines):
    """
    Passages of one length, so that the same ones are read together. The text to be evaluated has an odd
    number of them: the worker with fewer goes on without text, and none of it is left out.
    """
    train_data_path = write_text(tmp_path / "train", passages=24, seed=1, words=6)
    rare = (tmp_path / "train").read_text().replace("a", "rare", 1)
    (tmp_path / "train").write_text(rare)
    dev = write_text(tmp_path / "dev", passages=5, seed=2)
    reader = {"type": "elmo_bilm", "input": "words", "streams": 1, "passage": 3, "shuffle_buffer": 0}
    overrides = {
        "train_data_path": train_data_path,
        "validation_data_path": dev,
        "trainer.callbacks": [
            {"type": "elmo_repeatable"},
            {"type": "elmo_text_perplexities", "texts": {"dev": dev}, "reader": reader},
        ],
        "dataset_reader.shuffle_buffer": 0,
        "validation_dataset_reader.streams": 1,
        "model.dropout": 0.0,
        # A cluster of the rare word, which most blocks of a worker have not.
        "model.softmax": {"type": "adaptive", "cutoffs": [13], "div_value": 2},
    }
    if machines == 1:
        assert "finishing" not in train(tmp_path / "two", overrides | TWO, meddle=count_all_targets)
        folders = [tmp_path / "two"]
    else:
        meddle = dict.fromkeys(range(2), count_all_targets)
        folders = train_nodes(tmp_path / "two", SMALL | overrides, meddle=meddle)
    train(tmp_path / "one", overrides | {"dataset_reader.streams": 8}, meddle=count_all_targets)
    for folder in folders:
        assert_close(tmp_path / "one", folder)


def perplexities(folder):
    """Of the text in all epochs, in both directions."""
    with open(folder / FILE_NAME, newline="") as file:
        return [float(row[direction]) for row in csv.DictReader(file) for direction in DIRECTIONS]


def assert_close(one, two):
    """Metrics and weights."""
    expected, found = metrics_of(one), metrics_of(two)
    # That of AllenNLP is a mean over blocks, of which two workers have others.
    names = {name for name in expected if not name.endswith("validation_loss")}
    assert names == {name for name in found if not name.endswith("validation_loss")}
    for name in names:
        assert found[name] == pytest.approx(expected[name], rel=1e-5), name
    assert perplexities(two) == pytest.approx(perplexities(one), abs=2e-3)
    of_one, of_two = weights_of(one), weights_of(two)
    for name in of_one.keys() & {name for name in of_two if name.startswith(("bilm", "softmax"))}:
        torch.testing.assert_close(of_two[name], of_one[name], atol=1e-5, rtol=1e-4)


@pytest.fixture(scope="module")
def overrides(tmp_path_factory):
    """Passages longer than a block and than an epoch, and checkpoints within epochs."""
    folder = tmp_path_factory.mktemp("texts")
    return SMALL | {
        "train_data_path": write_text(folder / "train", passages=28, seed=1, sentences=5),
        "validation_data_path": write_text(folder / "dev", passages=5, seed=2),
        "dataset_reader.passage": 5,
        "trainer.checkpointer.save_every_num_batches": 2,
        "trainer.checkpointer.keep_most_recent_by_count": 1,
    }


@pytest.fixture(scope="module")
def two_machines(overrides, tmp_path_factory):
    """The folders of a training on two machines that nothing happens to."""
    return train_nodes(tmp_path_factory.mktemp("nodes") / "run", overrides)


def assert_same(expected, found):
    """To the last bit: metrics, weights, and where the streams of each worker stand."""
    assert metrics_of(found) == metrics_of(expected)
    parts = [weights_of(folder, "model_state_e3_b0.th") for folder in (expected, found)]
    workers = [torch.load(folder / "training_state_e3_b0.th")["workers"] for folder in (expected, found)]
    assert not torch.equal(*(worker["modules"]["_extra_state"]["0 hidden"] for worker in workers[0]))
    parts.extend(
        {
            f"{number} {name}": part
            for number, worker in enumerate(each)
            for name, part in worker["modules"]["_extra_state"].items()
            if torch.is_tensor(part)
        }
        for each in workers
    )
    for one, other in zip(parts[::2], parts[1::2], strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(other[name], part) for name, part in one.items())
    assert [path.name for path in found.glob("model_state*")] == ["model_state_e3_b0.th"]


def die_at_checkpoint():
    """SIGKILL when the first checkpoint of the second epoch is there on the other machine alone."""
    save, saves = torch.save, count(1)

    def until(state, file):
        if next(saves) == 7:
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)
        save(state, file)

    torch.save = until


def test_streams_of_each_worker_go_on(two_machines, overrides, tmp_path):
    """Two processes of one machine, which are as those of two."""
    train(tmp_path / "run", overrides | TWO, meddle=partial(die, BiLmModel, update=5 + 4), status=1)
    train(tmp_path / "run", overrides | TWO, recover=True)
    assert_same(two_machines[0], tmp_path / "run")


@pytest.mark.parametrize(
    ("node", "meddle"),
    [(0, partial(die, BiLmModel, update=5 + 4)), (1, die_at_checkpoint)],
    ids=["the first in an update", "the second at a checkpoint"],
)
def test_either_machine_is_killed_and_both_go_on(two_machines, overrides, tmp_path, node, meddle):
    """The other one ends, too, and both go on from the last checkpoint that both have."""
    train_nodes(tmp_path / "run", overrides, meddle={node: meddle}, status=1)
    folders = train_nodes(tmp_path / "run", overrides, recover=True)
    for expected, found in zip(two_machines, folders, strict=True):
        assert_same(expected, found)
