"""The `allennlp` command as a user starts it, from a folder that knows nothing of elmo_tasks."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import nltk
import pytest
import torch

# Runs in the command's process before anything else does.
SITECUSTOMIZE = """
import atexit, gc, os, socket, sys

def report(line):
    with open(os.environ["REPORT"], "a") as file:
        print(line, file=file)

def refuse(*args, **kwargs):
    report(f"network: {args}")
    raise OSError("no network")

socket.getaddrinfo = socket.create_connection = socket.socket.connect = refuse
atexit.register(lambda: report(f"imported: {'elmo_tasks' in sys.modules}"))
atexit.register(lambda: report(f"collects: {gc.isenabled()}, frozen: {gc.get_freeze_count() > 100_000}"))
"""


def test_it_finds_the_plugin_and_neither_downloads_nor_prints(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SITECUSTOMIZE)
    report = tmp_path / "report"
    done = subprocess.run(
        [Path(sysconfig.get_path("scripts"), "allennlp"), "--version"],
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            "REPORT": str(report),
            "ALLENNLP_LOG_LEVEL": "WARNING",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("allennlp 2.10.1\n", "")
    assert report.read_text() == "collects: True, frozen: True\nimported: True\n"


def test_diff_comes_with_the_plugins(tmp_path):
    """AllenNLP runs it without any; the options of a biLM, which are bytes, need a repair."""
    file = tmp_path / "weights.th"
    torch.save({"options": torch.zeros(2, dtype=torch.uint8)}, file)
    done = subprocess.run(
        [Path(sysconfig.get_path("scripts"), "allennlp"), "diff", file, file], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "options, shape = (2,)" in done.stdout


def test_what_needs_nltk_data_says_so():
    """The folder that ends nltk's search holds no data, and does not pretend to."""
    folder = Path(sys.prefix, "share", "nltk_data", "tokenizers", "punkt")
    assert [path.name for path in folder.iterdir()] == ["README.txt"]
    nltk.data.find("tokenizers/punkt", paths=[str(folder.parents[1])])
    with pytest.raises(LookupError, match="punkt_tab"):
        nltk.data.find("tokenizers/punkt_tab", paths=[str(folder.parents[1])])


def test_nothing_runs_when_python_starts():
    script = "import sys; print({'torch', 'allennlp', 'elmo_tasks'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "set()\n"
