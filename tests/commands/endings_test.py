import multiprocessing
import signal
import sys
import time

import pytest
from allennlp.common import logging as common_logging
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived
from allennlp.data.data_loaders.multiprocess_data_loader import WorkerError
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException

from elmo_tasks.compat import endings
from tests.forked import FORKED


@pytest.fixture
def training(monkeypatch):
    """This process is `allennlp train`, with no hook yet."""
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/allennlp", "train"])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (ConfigurationError("wrong"), "error: wrong", 1),
        (FileNotFoundError(2, "No such file or directory", "x"), "error: x: No such file or directory", 1),
        (KeyboardInterrupt(), "interrupted; --resume goes on", 130),
        (SigTermReceived(), "terminated", 143),
    ],
    ids=str,
)
def test_one_line(error, line, code, capsys):
    if code == 130:
        error.add_note("--resume goes on")
    endings.print_error(error)
    assert capsys.readouterr().err == line + "\n"
    assert endings.exit_code(error) == code


@pytest.mark.parametrize(
    ("last", "line"),
    [
        (
            "elmo_tasks.data.input_files.InputError: a.conll, line 2: found x",
            "error: a.conll, line 2: found x",
        ),
        ("allennlp.common.checks.ConfigurationError: no such key", "error: no such key"),
        ("ZeroDivisionError: a fault", "  ZeroDivisionError: a fault"),
    ],
)
@pytest.mark.usefixtures("training")
def test_what_a_worker_of_a_data_loader_says(capsys, last, line):
    endings.install()
    sys.excepthook(WorkerError, WorkerError("Error()", [f"{last}\n"]), None)
    assert capsys.readouterr().err.rstrip().splitlines()[-1] == line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            ProcessRaisedException(
                "\n-- Process 1\nTraceback\nelmo_tasks.common.values.ElmoError: x is 0", 1, 2
            ),
            "error: x is 0",
        ),
        (
            ProcessRaisedException("\nFileNotFoundError: [Errno 2] No such file or directory: 'x'", 0, 2),
            "error: [Errno 2] No such file or directory: 'x'",
        ),
        (
            ProcessExitedException("killed", 1, 2, -9, "SIGKILL"),
            "error: process 1 was ended by SIGKILL, as where there is too little memory; `--recover` goes on "
            "from the last checkpoint",
        ),
    ],
    ids=["ours", "a file", "a signal"],
)
@pytest.mark.usefixtures("training")
def test_what_a_process_of_a_distributed_training_says(capsys, error, line):
    endings.install()
    sys.excepthook(type(error), error, None)
    assert capsys.readouterr().err == f"{line}\n"


@pytest.mark.usefixtures("training")
def test_a_signal_ends_the_processes_of_the_command(monkeypatch):
    endings.install()
    process = FORKED.Process(target=time.sleep, args=(60,))
    process.start()
    assert process in multiprocessing.active_children()
    # Not those of other tests
    monkeypatch.setattr(multiprocessing, "active_children", lambda: [process])
    with pytest.raises(SystemExit) as ended:
        sys.excepthook(SigTermReceived, SigTermReceived(), None)
    assert ended.value.code == 143
    process.join(30)
    assert process.exitcode == -signal.SIGTERM


def test_faults_of_the_program_keep_their_traceback(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/allennlp", "evaluate"])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(common_logging, "prepare_global_logging", lambda: None)
    endings.install()
    for error in (ConfigurationError("wrong"), ZeroDivisionError("a fault")):
        sys.excepthook(type(error), error, None)
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == "error: wrong"
    assert rest[-1] == "ZeroDivisionError: a fault"


@pytest.mark.parametrize(("name", "ours"), [("nosuch", True), ("nosuch.inner", True), ("numpy", False)])
def test_a_package_that_is_not_there(monkeypatch, capsys, name, ours):
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/allennlp", "train", "a", "--include-package", name])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(common_logging, "prepare_global_logging", lambda: None)
    endings.install()
    sys.excepthook(ModuleNotFoundError, ModuleNotFoundError("No module", name="nosuch"), None)
    line = "error: --include-package: found no package nosuch\n"
    assert (capsys.readouterr().err == line) is ours


def test_training_logs_the_faults_of_the_program_alone(monkeypatch, capsys):
    """`prepare_global_logging` of AllenNLP sets a hook that logs every traceback."""
    logged = []
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/allennlp", "train"])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    stock = lambda folder: setattr(sys, "excepthook", lambda kind, *rest: logged.append(kind))  # noqa: E731
    monkeypatch.setattr(common_logging, "prepare_global_logging", stock)
    endings.install()
    common_logging.prepare_global_logging("folder")
    for error in (ConfigurationError("wrong"), ZeroDivisionError("a fault")):
        sys.excepthook(type(error), error, None)
    assert capsys.readouterr().err == "error: wrong\n"
    assert logged == [ZeroDivisionError]


def test_a_path_where_nothing_is_names_the_nearest(tmp_path, capsys):
    (tmp_path / "model.tar.gz").touch()
    wrong = tmp_path / "modle.tar.gz"
    of_a_block = ConfigurationError("model: cannot be built")
    of_a_block.__cause__ = FileNotFoundError(f"file {wrong} not found")
    for error in (FileNotFoundError(2, "No such file or directory", str(wrong)), of_a_block):
        endings.print_error(error)
        assert capsys.readouterr().err.endswith(f"; did you mean '{tmp_path / 'model.tar.gz'}'?\n")


@pytest.mark.parametrize(
    "program", ["/somewhere/bin/pytest", "/site-packages/allennlp_models/__main__.py", ""]
)
def test_other_programs_keep_their_hook(monkeypatch, program):
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setattr(sys, "excepthook", print)
    endings.install()
    assert sys.excepthook is print
