"""The examples run: the notebook prints what stands in it, and the task of CONTRIBUTING.md learns."""

import json
import re
import shlex
from contextlib import redirect_stdout
from io import StringIO

import pytest

from elmo_tasks.common.files import bundled
from tests.forked import Command

PROJECT = bundled("fixtures").resolve().parent


def test_the_notebook():
    cells = json.loads((PROJECT / "examples/quickstart.ipynb").read_text(encoding="utf-8"))["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            printed = StringIO()
            with redirect_stdout(printed):
                exec("".join(cell["source"]), names)
            (output,) = cell["outputs"]
            assert printed.getvalue() == "".join(output["text"])
    assert len(names["vectors"]) == 13


def test_the_task_of_ones_own(tmp_path, monkeypatch):
    """The commands of CONTRIBUTING.md, with the run in a folder of the test."""
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    commands = [shlex.split(line) for line in re.findall(r"(?m)^allennlp .*own_task.*$", text)]
    assert [words[1] for words in commands] == ["train", "predict"]
    monkeypatch.chdir(PROJECT)
    output = tmp_path / "predictions.jsonl"
    for words in commands:
        words = [word.replace("runs/own_task", str(tmp_path / "run")) for word in words]
        if words[1] == "predict":
            words += ["--output-file", output]
        Command(words[1:], tmp_path / "log").succeed()
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["best_validation_accuracy"] == pytest.approx(1)
    tags = [json.loads(line)["tags"] for line in output.read_text().splitlines()]
    assert tags[0] == ["DET", "ADJ", "NOUN", "VERB", "DET", "ADJ", "NOUN", "PUNCT"]
