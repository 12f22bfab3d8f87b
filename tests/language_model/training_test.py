"""Trainings that are killed, that meet a full disk, and that read what no one would write."""

import errno
import io
import os
import signal
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from allennlp.common import Params

from elmo_tasks.common.files import bundled
from elmo_tasks.language_model import BiLmModel
from tests.language_model.runs import die, metrics_of, train, weights_of, write_text

WITHIN = {"trainer.checkpointer.save_every_num_batches": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A training that nothing happens to, shuffled, its passages longer than a block and than an epoch."""
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
    expected, found = (weights_of(place, "model_state_e3_b0.th") for place in (run.folder, folder))
    assert expected.keys() == found.keys()
    assert any(name.startswith("0 ") for name in expected)
    for name, weight in expected.items():
        assert torch.equal(found[name], weight), name


@pytest.mark.parametrize("checkpointer", [{}, WITHIN], ids=["each epoch", "within an epoch"])
def test_recover_after_a_kill_gives_the_same_result(run, tmp_path, checkpointer):
    """SIGKILL in the second of three epochs: weights, order, dropout and the streams go on as they were."""
    overrides = run.overrides | checkpointer
    train(tmp_path / "run", overrides, meddle=partial(die, BiLmModel, update=5 + 4), status=-signal.SIGKILL)
    assert (tmp_path / "run" / "model_state_e1_b2.th").exists() == bool(checkpointer)
    train(tmp_path / "run", overrides, recover=True)
    assert_same(run, tmp_path / "run")


def fill_disk(write):
    """The disk is full when half of the file of the `write`-th write is there."""
    save, writes = torch.save, count(1)

    def until(state, file):
        if next(writes) != write:
            return save(state, file)
        content = io.BytesIO()
        save(state, content)
        with file if hasattr(file, "write") else open(file, "wb") as half:
            half.write(content.getvalue()[: len(content.getvalue()) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    torch.save = until


@pytest.mark.parametrize(("write", "name"), [(3, "model_state"), (4, "training_state")])
def test_full_disk(run, tmp_path, write, name):
    """The error names the file; the checkpoint before it is whole, and the run goes on from there."""
    folder = tmp_path / "run"
    output = train(folder, run.overrides, meddle=partial(fill_disk, write=write), status=1)
    assert f"No space left on device: '{folder / name}_e2_b0.th'" in output
    files = {file.name for file in folder.glob("*.*") if file.suffix in (".th", ".partial")}
    whole = {"best.th", "model_state_e1_b0.th", "training_state_e1_b0.th", "model_state_e2_b0.th"}
    assert files == (whole if name == "training_state" else whole - {"model_state_e2_b0.th"})
    train(folder, run.overrides, recover=True)
    assert_same(run, folder)


@pytest.mark.parametrize("word", ["x" * 1_000_000, "x " * 500_000], ids=["one word", "words"])
def test_a_line_of_a_million_characters(tmp_path, word):
    (tmp_path / "train").write_text(f"a b c\n{word}\nd e f\n")
    dev = write_text(tmp_path / "dev", passages=2, seed=2)
    overrides = {"train_data_path": str(tmp_path / "train"), "validation_data_path": dev}
    train(tmp_path / "run", overrides | {"trainer.num_epochs": 1})
    assert metrics_of(tmp_path / "run")["training_loss"] > 0


@pytest.mark.parametrize("name", ["bilm", "bilm_finetune", "bilm_words"])
def test_validation_reads_the_whole_text_in_order(tmp_path, name):
    config = tmp_path / "config.jsonnet"
    changes = "{ dataset_reader+: { subsample: 0.001, restart: 0.5, shuffle_buffer: 9, passage: 7 } }"
    config.write_text(f"(import '{bundled('training_configs').resolve()}/{name}.jsonnet') + {changes}")
    reader = Params.from_file(str(config))["validation_dataset_reader"].as_dict(quiet=True)
    found = {key: reader.get(key) for key in ("subsample", "restart", "shuffle_buffer", "passage")}
    assert found == {"subsample": None, "restart": 0, "shuffle_buffer": 0, "passage": 7}


def test_no_text(tmp_path):
    (tmp_path / "train").write_text("\n \n\n")
    overrides = {"train_data_path": str(tmp_path / "train"), "validation_data_path": str(tmp_path / "train")}
    output = train(tmp_path / "run", overrides, status=1)
    assert f"{tmp_path / 'train'}: found no sentence, expected at least one" in output
