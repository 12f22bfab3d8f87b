import sys
from types import SimpleNamespace

import pytest

from elmo_tasks.common import progress


@pytest.mark.parametrize(("options", "shown"), [({}, False), ({"delay": 0}, True)])
def test_what_is_short_has_none(monkeypatch, capsys, options, shown):
    monkeypatch.setattr(progress, "in_file", dict)
    bar = progress.progress("ab", work="reading", unit="letters", mininterval=0, **options)
    assert list(bar) == ["a", "b"]
    error = capsys.readouterr().err
    assert ("reading: 100%" in error and "letters/s]" in error and error.endswith("\r")) is shown


@pytest.mark.parametrize(("terminal", "notebook"), [(False, False), (True, False), (False, True)])
def test_notebooks_are_like_terminals(monkeypatch, terminal, notebook):
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: terminal))
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    if notebook:
        monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert bool(progress.in_file()) is not (terminal or notebook)


def test_without_stderr(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert list(progress.progress("ab", work="reading", unit="letters", delay=0)) == ["a", "b"]
