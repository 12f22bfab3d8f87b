import logging
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.language_model import BiLmModel, ProgressCallback, callbacks


class Run:
    """As much of a trainer as the callback meets, with a clock of its own: batches of 50 steps, 2 s each."""

    def __init__(self, monkeypatch, *, length=10, world_size=1, skipped=0, **options) -> None:
        self.now = 100.0
        monkeypatch.setattr(callbacks.time, "monotonic", lambda: self.now)
        self.callback = ProgressCallback("folder", **options)
        self.trainer = SimpleNamespace(
            model=Mock(spec=BiLmModel),
            # Not even a length
            data_loader=[()] * length if length else iter(()),
            _num_gradient_accumulation_steps=2,
            _num_epochs=3,
            _world_size=world_size,
            _batches_in_epoch_completed=0,
        )
        self.skipped = skipped
        self.callback.on_start(self.trainer)

    def epoch(self, epoch: int, is_primary: bool = True) -> dict:
        self.trainer._batches_in_epoch_completed = 0
        for batch in range(1, 6):
            self.now += 2
            self.trainer._batches_in_epoch_completed = batch
            if batch > self.skipped:
                self.batch(epoch, batch, is_primary=is_primary)
        self.skipped = 0
        # Evaluation
        self.now += 10
        self.batch(epoch, 1, is_training=False, is_primary=is_primary)
        metrics: dict = {}
        self.callback.on_epoch(self.trainer, metrics, epoch, is_primary=is_primary)
        return metrics

    def batch(self, epoch: int, batch: int, is_training: bool = True, is_primary: bool = True) -> None:
        # Two halves, as gradients are accumulated
        inputs = [{"block": {"inputs": torch.zeros(2, steps)}} for steps in (20, 30)]
        self.callback.on_batch(
            self.trainer, inputs, [], {}, epoch, batch, is_training=is_training, is_primary=is_primary
        )


def lines(caplog) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.name == callbacks.__name__]
    caplog.clear()
    return found


@pytest.fixture(autouse=True)
def informed(caplog):
    caplog.set_level(logging.INFO)


def test_speed_and_time_left(monkeypatch, caplog):
    run = Run(monkeypatch, every_seconds=4)
    assert run.epoch(0) == {"training_tokens_per_second": 25.0}
    # 12 batches of 2 s, then 10 of them
    assert lines(caplog) == [
        "epoch 1 of 3, 60%: 25 tokens/s, 24 s left",
        "epoch 1 of 3, 100%: 25 tokens/s, 20 s left",
    ]
    run.epoch(1)
    # Six batches took 22 s with the evaluation, which the speed leaves out; eight took 26 s.
    assert lines(caplog) == [
        f"epoch 2 of 3, 40%: 25 tokens/s, {8 * 22 / 6:.0f} s left",
        f"epoch 2 of 3, 80%: 25 tokens/s, {6 * 26 / 8:.0f} s left",
    ]


def test_unknown_length(monkeypatch, caplog):
    run = Run(monkeypatch, length=None, every_seconds=6)
    run.epoch(0)
    assert lines(caplog) == ["epoch 1 of 3, batch 4: 25 tokens/s"]
    run.epoch(1)
    assert "epoch 2 of 3, 40%: 25 tokens/s, 29 s left" in lines(caplog)


def test_resumed_run_counts_what_it_does(monkeypatch, caplog):
    run = Run(monkeypatch, skipped=2, every_seconds=3)
    run.now += 1000
    assert run.epoch(1) == {"training_tokens_per_second": 25.0}
    assert lines(caplog) == ["epoch 2 of 3, 100%: 25 tokens/s, 10 s left"]


def test_tokens_of_all_workers_are_counted_and_one_tells(monkeypatch, caplog):
    assert Run(monkeypatch, world_size=4).epoch(0) == {"training_tokens_per_second": 100.0}
    assert Run(monkeypatch, every_seconds=0).epoch(0, is_primary=False) == {}
    assert not lines(caplog)


def test_above_the_progress_bar_where_the_log_is_silent(monkeypatch, caplog, capsys):
    caplog.set_level(logging.WARNING)
    Run(monkeypatch, every_seconds=8).epoch(0)
    assert capsys.readouterr().err == "epoch 1 of 3, 100%: 25 tokens/s, 20 s left\n"


def test_another_model():
    trainer = SimpleNamespace(model=torch.nn.Linear(1, 1))
    with pytest.raises(ConfigurationError, match="elmo_progress: found the model Linear, expected elmo_bilm"):
        ProgressCallback("folder").on_start(trainer)


def test_negative_interval():
    with pytest.raises(ConfigurationError, match="every_seconds is -1, expected a number from 0"):
        ProgressCallback("folder", every_seconds=-1)
