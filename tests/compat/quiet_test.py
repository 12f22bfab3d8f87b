"""AllenNLP's progress in a terminal, and in a file."""

from types import SimpleNamespace

import pytest
from allennlp.common import logging as common_logging
from allennlp.common import tqdm as common_tqdm
from allennlp.common.tqdm import Tqdm
from allennlp.training import gradient_descent_trainer

from elmo_tasks.common import progress
from elmo_tasks.compat import endings
from tests.compat.repairs_test import stock


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(progress, "log_options", dict)


def test_a_terminal_shows_bars(terminal, capsys):
    assert sum(Tqdm.tqdm(range(3), desc="counting")) == 3
    assert "\rcounting: 100%" in capsys.readouterr().err


def test_a_file_has_none_of_a_short_work(capsys):
    assert sum(Tqdm.tqdm(range(3), desc="counting", mininterval=0)) == 3
    assert capsys.readouterr().err == ""


def test_stock_writes_bars_to_a_file(capsys):
    assert sum(stock(common_tqdm).Tqdm.tqdm(range(3), desc="counting", mininterval=0)) == 3
    assert capsys.readouterr().err.count("counting: ") > 3


def test_a_file_has_lines_of_a_long_one(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0)
    for _ in Tqdm.tqdm(range(2), desc="counting", leave=False):
        pass
    lines = capsys.readouterr().err.splitlines()
    assert [line[:13] for line in lines] == ["counting:   0", "counting:  50", "counting: 100"]


def test_file_friendly_logging_is_allennlps_own(capsys, monkeypatch):
    monkeypatch.setattr(common_logging, "FILE_FRIENDLY_LOGGING", True)
    list(Tqdm.tqdm(range(3), desc="counting"))
    assert "counting: 100%" in capsys.readouterr().err


METRICS = {"training_loss": 22.068, "validation_f1": 0.65214, "best_epoch": 1, "best_validation_f1": 0.7}


class TestEpochs:
    @pytest.fixture
    def say(self, monkeypatch):
        """Says an epoch of ten seconds, of three."""
        clock = iter((0.0, 10.0, 10.0))
        monkeypatch.setattr(endings.time, "monotonic", lambda: next(clock))
        tracker = SimpleNamespace(tracked_metrics=[(1.0, "f1")])
        trainer = SimpleNamespace(_num_epochs=3, _metric_tracker=tracker)
        lines = endings.EpochLines("folder")
        lines.on_start(trainer)

        def say(metrics, epoch, *, validated=True, **options):
            for is_training in (True, False) if validated else (True,):
                lines.on_batch(trainer, is_training=is_training)
            lines.on_epoch(trainer, metrics, epoch, **options)

        return say

    @pytest.mark.parametrize(
        ("epoch", "line"),
        [
            (0, "1 of 3: training loss 22.07, validation f1 0.6521 (best 0.7000, epoch 2), 10 s; 20 s left"),
            (1, "2 of 3: training loss 22.07, validation f1 0.6521, 10 s; 10 s left"),
        ],
    )
    def test_a_line_in_a_file(self, say, capsys, epoch, line):
        say(METRICS, epoch)
        assert capsys.readouterr().err == f"epoch {line}\n"

    @pytest.mark.parametrize("earlier", [{}, METRICS], ids=["ever", "in this epoch"])
    def test_without_validation(self, say, capsys, earlier):
        say(earlier | {"training_loss": 1.0}, 2, validated=False)
        assert capsys.readouterr().err == "epoch 3 of 3: training loss 1, 10 s; 0 s left\n"

    def test_an_epoch_whose_batches_were_before_a_kill(self, say, capsys):
        say({name: value for name, value in METRICS.items() if name != "training_loss"}, 1)
        assert capsys.readouterr().err == "epoch 2 of 3: validation f1 0.6521, 10 s; 10 s left\n"

    def test_a_terminal_has_the_bars(self, say, terminal, capsys):
        say(METRICS, 1)
        assert capsys.readouterr().err == ""

    def test_one_process_says_it(self, say, capsys):
        say(METRICS, 1, is_primary=False)
        assert capsys.readouterr().err == ""

    def test_every_trainer_has_them_once(self):
        endings.write_lines_to_files()
        assert gradient_descent_trainer.DEFAULT_CALLBACKS.count(endings.EpochLines) == 1
