import sys
from collections.abc import Callable
from typing import Any

import allennlp.commands
import pytest

import elmo_tasks  # noqa: F401

Verb = Callable[..., int]


@pytest.fixture
def elmo(monkeypatch: pytest.MonkeyPatch) -> Verb:
    """Runs `allennlp elmo ...` in this process, which has its plug-ins already; returns the exit code."""
    monkeypatch.setattr(allennlp.commands, "import_plugins", lambda: None)

    def run(*arguments: Any) -> int:
        monkeypatch.setattr(sys, "argv", ["allennlp", "elmo", *map(str, arguments)])
        try:
            allennlp.commands.main(prog="allennlp")
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    return run
