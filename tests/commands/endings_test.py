import sys

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived

from elmo_tasks.commands import endings


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
    endings.tell(error)
    assert capsys.readouterr().err == line + "\n"
    assert endings.exit_code(error) == code


def test_faults_of_the_program_keep_their_traceback(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/allennlp", "evaluate"])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    endings.install()
    for error in (ConfigurationError("wrong"), ZeroDivisionError("a fault")):
        sys.excepthook(type(error), error, None)
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == "error: wrong"
    assert rest[-1] == "ZeroDivisionError: a fault"


@pytest.mark.parametrize(
    "program", ["/somewhere/bin/pytest", "/site-packages/allennlp_models/__main__.py", ""]
)
def test_other_programs_keep_their_hook(monkeypatch, program):
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setattr(sys, "excepthook", print)
    endings.install()
    assert sys.excepthook is print
