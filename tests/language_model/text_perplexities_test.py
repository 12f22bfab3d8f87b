import csv
from types import SimpleNamespace

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.training import TrainerCallback

from elmo_tasks.language_model import callbacks
from elmo_tasks.language_model.metric import DIRECTIONS
from tests.language_model.archives import READER, TEXT, write_run

TEXTS = {"one": TEXT, "another": "The cat .\n"}


class Run:
    """As much of a trainer as the callback meets, with a clock of its own."""

    def __init__(self, folder, model, monkeypatch, *, state=None, world_size=1):
        self.now = 1000.0
        monkeypatch.setattr(callbacks.time, "monotonic", lambda: self.now)
        self.folder = folder
        for name, text in TEXTS.items():
            (folder / name).write_text(text, encoding="utf-8")
        params = {
            "type": "elmo_text_perplexities",
            "texts": {name: str(folder / name) for name in TEXTS},
            "reader": dict(READER),
        }
        self.callback = TrainerCallback.from_params(Params(params), serialization_dir=str(folder))
        self.trainer = SimpleNamespace(model=model, cuda_device=torch.device("cpu"), _world_size=world_size)
        if state is not None:
            self.callback.load_state_dict(state)
        self.callback.on_start(self.trainer)

    def epoch(self, number, is_primary=True):
        """Two batches of 50 steps, in 10 s."""
        for batch in range(2):
            self.now += 5
            # Two halves, as gradients are accumulated
            inputs = [{"block": {"inputs": torch.zeros(2, steps)}} for steps in (20, 30)]
            self.callback.on_batch(self.trainer, inputs, [], {}, number, batch, is_training=True)
        self.callback.on_batch(self.trainer, inputs, [], {}, number, 0, is_training=False)
        self.callback.on_epoch(self.trainer, metrics={}, epoch=number, is_primary=is_primary)

    def rows(self):
        with open(self.folder / callbacks.FILE_NAME, newline="") as file:
            return list(csv.DictReader(file))


@pytest.fixture
def model(tmp_path):
    return write_run(tmp_path / "run").train()


def progress(row):
    return [int(row[name]) for name in ("epoch", "batches", "tokens", "seconds")]


def test_a_row_for_each_text_after_each_epoch(tmp_path, model, monkeypatch):
    run = Run(tmp_path, model, monkeypatch)
    run.epoch(0)
    run.epoch(1)
    rows = run.rows()
    assert [row["text"] for row in rows] == list(TEXTS) * 2
    assert [progress(row) for row in rows[::2]] == [[1, 2, 100, 10], [2, 4, 200, 20]]
    # The weights are still the same; training goes on.
    assert [rows[0][name] for name in DIRECTIONS] == [rows[2][name] for name in DIRECTIONS]
    assert model.training
    reader = DatasetReader.from_params(Params(dict(READER)))
    for row in rows[:2]:
        model.eval()
        for instance in reader.read(str(tmp_path / row["text"])):
            instance.index_fields(model.vocab)
            model(**instance.as_tensor_dict())
        metrics = model.get_metrics(reset=True)
        for name in DIRECTIONS:
            assert float(row[name]) == pytest.approx(metrics[f"perplexity_{name}"], abs=1e-3)


def test_nothing_is_left_in_the_metrics_of_the_run(tmp_path, model, monkeypatch):
    Run(tmp_path, model, monkeypatch).epoch(0)
    assert model.eval().get_metrics() == {}


def test_a_resumed_run_goes_on_counting(tmp_path, model, monkeypatch):
    """Rows of what is trained once more are left out."""
    run = Run(tmp_path, model, monkeypatch)
    run.epoch(0)
    state = run.callback.state_dict()
    run.epoch(1)
    before = run.rows()
    resumed = Run(tmp_path, model, monkeypatch, state=state)
    assert resumed.rows() == before[:2]
    resumed.epoch(1)
    assert resumed.rows() == before


@pytest.mark.parametrize("cut", ["2", "2,2", "2,2,150,10,d"])
def test_a_row_that_a_kill_has_cut_off(tmp_path, model, monkeypatch, cut):
    run = Run(tmp_path, model, monkeypatch)
    run.epoch(0)
    before, state = run.rows(), run.callback.state_dict()
    with open(tmp_path / callbacks.FILE_NAME, "a") as file:
        file.write(cut)
    resumed = Run(tmp_path, model, monkeypatch, state=state)
    assert resumed.rows() == before


def test_tokens_of_all_workers_are_counted_and_one_writes(tmp_path, model, monkeypatch):
    run = Run(tmp_path, model, monkeypatch, world_size=3)
    run.epoch(0)
    assert progress(run.rows()[0]) == [1, 2, 300, 10]
    run.epoch(1, is_primary=False)
    assert len(run.rows()) == len(TEXTS)


def test_a_new_run_begins_a_new_file(tmp_path, model, monkeypatch):
    Run(tmp_path, model, monkeypatch).epoch(0)
    assert Run(tmp_path, model, monkeypatch).rows() == []


def test_no_texts():
    with pytest.raises(ConfigurationError, match=r"texts is \{\}, expected a block that is not empty"):
        TrainerCallback.from_params(
            Params({"type": "elmo_text_perplexities", "texts": {}, "reader": dict(READER)}),
            serialization_dir="folder",
        )
