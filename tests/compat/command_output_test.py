"""How a command that fails ends; progress in a terminal, and in a file."""

import json
import multiprocessing
import os
import signal
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from allennlp.common import logging as common_logging
from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm
from allennlp.common.util import install_sigterm_handler
from allennlp.models.archival import archive_model
from allennlp.training.callbacks import WandBCallback

from elmo_tasks.common import progress
from elmo_tasks.compat import command
from elmo_tasks.compat.command import Terminated, end_of_training, telling_how_to_recover
from tests.conftest import command_process
from tests.errors import mentions
from tests.forked import FORKED
from tests.pipeline.fake import Doubling


@pytest.fixture
def logged(monkeypatch) -> list[type[BaseException]]:
    """The errors that AllenNLP logs, whose `prepare_global_logging` sets a hook that logs every traceback."""
    kinds = []
    own_hook = lambda folder: setattr(sys, "excepthook", lambda kind, *rest: kinds.append(kind))  # noqa: E731
    monkeypatch.setattr(common_logging, "prepare_global_logging", own_hook)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    return kinds


def end(error: BaseException) -> None:
    sys.excepthook(type(error), error, None)


@pytest.mark.parametrize(
    ("trainer", "last", "reason"),
    [
        ({"num_epochs": 4}, 4, "last"),
        ({"num_epochs": 9, "patience": 2}, 4, "trainer.patience"),
        ({"num_epochs": 9, "patience": 3}, 4, "told to stop"),
    ],
)
def test_the_end_of_a_training(tmp_path, trainer, last, reason):
    metrics = {"epoch": last - 1, "best_epoch": 1, "validation_instances": 30}
    scores = {"best_validation_f1": 0.75, "best_validation_precision-A": 0.125}
    trainer = {**trainer, "validation_metric": "+f1"}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics | scores))
    (tmp_path / "config.json").write_text(json.dumps({"trainer": trainer}))
    shown = end_of_training(tmp_path)
    assert mentions(shown, "30", "epoch 2", "| f1 | 0.7500 |", f"after epoch {last}", reason, str(tmp_path))
    assert "0.125" not in shown


def test_archives_are_packed_quickly(in_command, tmp_path):
    for name in ("config.json", "best.th"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "vocabulary").mkdir()
    archive = Path(archive_model(tmp_path))
    assert archive.read_bytes()[8] == 4  # gzip's mark of its quickest level
    with tarfile.open(archive) as packed:
        assert packed.getnames() == ["config.json", "weights.th", "vocabulary"]


@pytest.mark.parametrize("signal", [KeyboardInterrupt, Terminated])
def test_what_a_stopped_training_keeps(tmp_path, signal):
    for name in ("config.json", "metrics_epoch_0.json", "metrics_epoch_1.json", "model.tar.gz"):
        (tmp_path / name).touch()
    with pytest.raises(signal) as caught, telling_how_to_recover(tmp_path):
        raise signal
    assert mentions("; ".join(caught.value.__notes__), "2", "model.tar.gz", "--recover")


@pytest.mark.usefixtures("in_command")
def test_faults_of_the_program_keep_their_traceback(capsys):
    end(ZeroDivisionError("a fault"))
    shown = capsys.readouterr().err.rstrip().splitlines()
    assert not shown[0].startswith("error: ")
    assert "a fault" in shown[-1]


def test_a_callback_whose_package_is_missing(in_command, capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wandb", None)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModuleNotFoundError) as caught:
        WandBCallback(str(tmp_path)).on_start(None)
    sys.excepthook(caught.type, caught.value, caught.tb)
    assert mentions(capsys.readouterr().err.splitlines()[-1], "error: ", "wandb")


def test_sigterm_is_no_error_of_a_line(in_command):
    def run(instances):
        os.kill(os.getpid(), signal.SIGTERM)

    predictor, handler = Doubling(), signal.getsignal(signal.SIGTERM)
    predictor.run = run
    install_sigterm_handler()
    try:
        with pytest.raises(Terminated):
            predictor.predict_batch_json([{"text": "a"}, {"text": "b"}])
    finally:
        signal.signal(signal.SIGTERM, handler)


@pytest.mark.usefixtures("in_command")
def test_a_signal_ends_the_processes_of_the_command(monkeypatch):
    process = FORKED.Process(target=time.sleep, args=(60,))
    process.start()
    assert process in multiprocessing.active_children()
    # Not those of other tests
    monkeypatch.setattr(multiprocessing, "active_children", lambda: [process])
    with pytest.raises(SystemExit) as ended:
        end(Terminated())
    assert ended.value.code == 143
    process.join(30)
    assert process.exitcode == -signal.SIGTERM


def test_training_logs_the_faults_of_the_program_alone(logged, capsys):
    common_logging.prepare_global_logging("folder")
    end(ConfigurationError("wrong"))
    assert logged.pop() is ConfigurationError
    with command_process():
        common_logging.prepare_global_logging("folder")
        for error in (ConfigurationError("wrong"), ZeroDivisionError("a fault")):
            end(error)
    assert capsys.readouterr().err == "error: wrong\n"
    assert logged == [ZeroDivisionError]


def test_a_file_has_no_lines_of_short_work(in_command, capsys):
    assert sum(Tqdm.tqdm(range(3), desc="counting", mininterval=0)) == 3
    assert capsys.readouterr().err == ""


def test_a_file_has_lines_of_a_long_one(in_command, capsys, monkeypatch):
    monkeypatch.setattr(progress, "FIRST_LINE_SECONDS", 0)
    for seconds, shown in ((0, ["  0", " 50", "100"]), (300, ["  0"])):
        monkeypatch.setattr(progress, "LINE_SECONDS", seconds)
        for _ in Tqdm.tqdm(range(2), desc="counting", leave=False):
            pass
        lines = capsys.readouterr().err.splitlines()
        assert [line[:13] for line in lines] == [f"counting: {each}" for each in shown]


BOTH = {"training_loss": 22.068, "validation_f1": 0.65214, "best_epoch": 1, "best_validation_f1": 0.7}


@pytest.mark.parametrize(
    ("metrics", "epoch", "options", "line"),
    [
        (
            BOTH,
            0,
            {},
            "1 of 3: training loss 22.07, validation f1 0.6521 (best 0.7000, epoch 2), 10 s; 20 s left",
        ),
        ({"training_loss": 22.068}, 2, {}, "3 of 3: training loss 22.07, 10 s; 0 s left"),
        (BOTH, 1, {"is_primary": False}, None),
    ],
)
def test_a_line_for_each_epoch_in_a_file(monkeypatch, capsys, metrics, epoch, options, line):
    """Epochs of ten seconds. Of several processes one writes, and a terminal has the bars."""
    clock = iter((0.0, 10.0, 10.0) * 2)
    monkeypatch.setattr(command.time, "monotonic", lambda: next(clock))
    tracker = SimpleNamespace(tracked_metrics=[(1.0, "f1")])
    trainer = SimpleNamespace(_num_epochs=3, _metric_tracker=tracker)

    def shown(*, is_primary=True):
        lines = command.EpochLines("folder")
        lines.on_start(trainer)
        lines.on_epoch(trainer, metrics, epoch, is_primary=is_primary)
        return capsys.readouterr().err

    assert shown(**options) == (f"epoch {line}\n" if line else "")
    monkeypatch.setattr(progress, "log_options", dict)
    assert shown(**options) == ""
