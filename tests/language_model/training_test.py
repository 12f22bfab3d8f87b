"""Whole trainings: killed and resumed, on a full disk, with strange text, by two workers, on two machines."""

import csv
import os
import signal
import time
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from allennlp.common import Params

from elmo_tasks.common.files import bundled
from elmo_tasks.language_model import model
from elmo_tasks.language_model.callbacks import FILE_NAME
from elmo_tasks.language_model.metric import DIRECTIONS
from elmo_tasks.language_model.model import BiLmModel
from tests.language_model.runs import SMALL, die, metrics_of, train, train_nodes, weights_of, write_text

WITHIN = {"trainer.checkpointer.save_every_num_batches": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """An undisturbed training, shuffled, with passages longer than a block and than an epoch."""
    folder = tmp_path_factory.mktemp("bilm")
    overrides = {
        "train_data_path": write_text(folder / "train", passages=14, seed=1, sentences=5),
        "validation_data_path": write_text(folder / "dev", passages=5, seed=2),
        "dataset_reader.passage": 5,
        "dataset_reader.subsample": 0.05,
    }
    train(folder / "run", overrides)
    return SimpleNamespace(folder=folder / "run", overrides=overrides)


def assert_same(run, folder):
    assert metrics_of(folder) == metrics_of(run.folder)
    expected, found = (weights_of(each, "model_state_e3_b0.th") for each in (run.folder, folder))
    assert expected.keys() == found.keys()
    assert any(name.startswith("0 ") for name in expected)
    for name, weight in expected.items():
        assert torch.equal(found[name], weight), name


@pytest.mark.parametrize("checkpointer", [{}, WITHIN], ids=["each epoch", "within an epoch"])
def test_recover_after_a_kill_gives_the_same_result(run, tmp_path, checkpointer):
    """SIGKILL in the second of three epochs: weights, order, dropout and streams continue as they were."""
    overrides = run.overrides | checkpointer
    train(tmp_path / "run", overrides, meddle=partial(die, BiLmModel, update=5 + 4), status=-signal.SIGKILL)
    assert (tmp_path / "run" / "model_state_e1_b2.th").exists() == bool(checkpointer)
    train(tmp_path / "run", overrides, recover=True)
    assert_same(run, tmp_path / "run")


@pytest.mark.parametrize("name", ["bilm", "bilm_finetune", "bilm_words"])
def test_validation_reads_the_whole_text_in_order(tmp_path, name):
    config = tmp_path / "config.jsonnet"
    changes = "{ dataset_reader+: { subsample: 0.001, restart: 0.5, shuffle_buffer: 9, passage: 7 } }"
    config.write_text(f"(import '{bundled('training_configs').resolve()}/{name}.jsonnet') + {changes}")
    reader = Params.from_file(str(config))["validation_dataset_reader"].as_dict(quiet=True)
    found = {key: reader.get(key) for key in ("subsample", "restart", "shuffle_buffer", "passage")}
    assert found == {"subsample": None, "restart": 0, "shuffle_buffer": 0, "passage": 7}


TWO = {"distributed": {"cuda_devices": [-1, -1]}}


def count_all_targets():
    """Counts all targets in training too, as in evaluation."""
    model.TRAINING_TARGETS = 1000


@pytest.mark.slow
@pytest.mark.parametrize("machines", [1, 2])
def test_two_workers_are_one_with_twice_the_streams(tmp_path, machines):
    """
    All passages have one length, so that the same ones are read together. The text to be evaluated has an odd
    number of passages: one worker ends with a block without text, and no text is left out.
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
        # A cluster of the rare word, which most blocks of a worker lack
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
    """Returns the perplexities of the text in all epochs and both directions."""
    with open(folder / FILE_NAME, newline="") as file:
        return [float(row[direction]) for row in csv.DictReader(file) for direction in DIRECTIONS]


def assert_close(one, two):
    expected, found = metrics_of(one), metrics_of(two)
    # AllenNLP's loss is a mean over blocks, and two workers have other blocks.
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
    """The folders of an undisturbed training on two machines."""
    return train_nodes(tmp_path_factory.mktemp("nodes") / "run", overrides)


def assert_same_on_workers(expected, found):
    """Compares metrics, weights, and the streams of each worker, to the last bit."""
    assert metrics_of(found) == metrics_of(expected)
    parts = [weights_of(folder, "model_state_e3_b0.th") for folder in (expected, found)]
    workers = [torch.load(folder / "training_state_e3_b0.th")["workers"] for folder in (expected, found)]
    assert not torch.equal(*(worker["modules"]["_extra_state"]["0 hidden"] for worker in workers[0]))
    parts.extend(
        {
            f"{i} {name}": part
            for i, worker in enumerate(each)
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
    """Dies when only the other machine has the first checkpoint of the second epoch."""
    save, saves = torch.save, count(1)

    def until(state, file):
        if next(saves) == 7:
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)
        save(state, file)

    torch.save = until


@pytest.mark.slow
def test_streams_of_each_worker_continue(two_machines, overrides, tmp_path):
    """Two processes on one machine compute the same as on two machines."""
    train(tmp_path / "run", overrides | TWO, meddle=partial(die, BiLmModel, update=5 + 4), status=1)
    train(tmp_path / "run", overrides | TWO, recover=True)
    assert_same_on_workers(two_machines[0], tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("node", "meddle"),
    [(0, partial(die, BiLmModel, update=5 + 4)), (1, die_at_checkpoint)],
    ids=["the first in an update", "the second at a checkpoint"],
)
def test_either_machine_is_killed_and_both_resume(two_machines, overrides, tmp_path, node, meddle):
    train_nodes(tmp_path / "run", overrides, meddle={node: meddle}, status=1)
    folders = train_nodes(tmp_path / "run", overrides, recover=True)
    for expected, found in zip(two_machines, folders, strict=True):
        assert_same_on_workers(expected, found)
