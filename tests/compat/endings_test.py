"""How a command that fails ends."""

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

from elmo_tasks.archives.opening import open_archive
from elmo_tasks.compat import endings
from tests.forked import FORKED


@pytest.fixture
def training(monkeypatch):
    """This process is `allennlp train`, with no hook yet, which then gets ours."""
    monkeypatch.setattr(sys, "argv", ["/bin/allennlp", "train", "a", "--include-package", "nosuch.x"])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(common_logging, "prepare_global_logging", lambda: None)
    endings.end_in_one_line()


def end(error: BaseException) -> None:
    sys.excepthook(type(error), error, None)


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
    ("error", "line"),
    [
        (
            WorkerError("Error()", ["elmo_tasks.data.input_files.InputError: a.conll, line 2: found x\n"]),
            "error: a.conll, line 2: found x",
        ),
        (
            WorkerError("Error()", ["allennlp.common.checks.ConfigurationError: no such key\n"]),
            "error: no such key",
        ),
        (
            ProcessRaisedException("\n-- Process 1\nelmo_tasks.common.values.ElmoError: x is 0", 1, 2),
            "error: x is 0",
        ),
        (
            ProcessRaisedException("\nFileNotFoundError: [Errno 2] No such file or directory: 'x'", 0, 2),
            "error: [Errno 2] No such file or directory: 'x'",
        ),
        (ProcessExitedException("killed", 1, 2, -9, "SIGKILL"), "error: process 1 was ended by SIGKILL"),
        (
            ModuleNotFoundError("No module", name="nosuch"),
            "error: --include-package: found no package",
        ),
    ],
    ids=["a reader's", "a config's", "ours", "a file", "a signal", "a package"],
)
@pytest.mark.usefixtures("training")
def test_the_error_of_another_process_or_package(capsys, error, line):
    end(error)
    (shown,) = capsys.readouterr().err.splitlines()
    assert shown.startswith(line)


@pytest.mark.parametrize("url", ["nosuchscheme://x", "s3://"])
@pytest.mark.usefixtures("training")
def test_a_url_that_is_none(capsys, url):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        open_archive(url)
    end(caught.value)
    (shown,) = capsys.readouterr().err.splitlines()
    assert shown.startswith("error: ")


@pytest.mark.parametrize(("module", "is_extra"), [("allennlp.training.x", True), ("my_plugin", False)])
@pytest.mark.usefixtures("training")
def test_an_extra_of_allennlp_that_is_not_there(capsys, module, is_extra):
    """A fault in the user's own module keeps its traceback."""
    try:
        exec("import nosuch_extra", {"__name__": module})
    except ModuleNotFoundError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    shown = capsys.readouterr().err
    assert shown.startswith("error: found no package nosuch_extra") == is_extra
    assert ("Traceback" in shown) != is_extra


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("a fault"),
        WorkerError("Error()", ["ZeroDivisionError: a fault\n"]),
        ModuleNotFoundError("a fault", name="other"),
    ],
)
@pytest.mark.usefixtures("training")
def test_faults_of_the_program_keep_their_traceback(capsys, error):
    end(error)
    shown = capsys.readouterr().err.rstrip().splitlines()
    assert not shown[0].startswith("error: ")
    assert "a fault" in shown[-1]


@pytest.mark.usefixtures("training")
def test_a_signal_ends_the_processes_of_the_command(monkeypatch):
    process = FORKED.Process(target=time.sleep, args=(60,))
    process.start()
    assert process in multiprocessing.active_children()
    # Not those of other tests
    monkeypatch.setattr(multiprocessing, "active_children", lambda: [process])
    with pytest.raises(SystemExit) as ended:
        end(SigTermReceived())
    assert ended.value.code == 143
    process.join(30)
    assert process.exitcode == -signal.SIGTERM


def test_training_logs_the_faults_of_the_program_alone(training, monkeypatch, capsys):
    """`prepare_global_logging` of AllenNLP sets a hook that logs every traceback."""
    logged = []
    stock = lambda folder: setattr(sys, "excepthook", lambda kind, *rest: logged.append(kind))  # noqa: E731
    monkeypatch.setattr(common_logging, "prepare_global_logging", stock)
    stock("folder")
    end(ConfigurationError("wrong"))
    assert logged.pop() is ConfigurationError
    endings.end_in_one_line()
    common_logging.prepare_global_logging("folder")
    for error in (ConfigurationError("wrong"), ZeroDivisionError("a fault")):
        end(error)
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
    endings.end_in_one_line()
    assert sys.excepthook is print
