"""`python -m benchmarks paper`: experiments are run, kept, and resumed after an interruption."""

import json
import re
from argparse import ArgumentParser
from importlib.util import find_spec

import pytest
from filelock import lock_descriptor

from benchmarks.__main__ import load_task, main
from benchmarks.paper import read_experiments
from elmo_tasks.commands import ElmoGroup
from elmo_tasks.common.files import bundled
from elmo_tasks.common.table import Table

NEEDS = {"elmo-parity": "h5py", "embed-speed": "h5py", "serve-load": "fastapi"}
"""Packages that a task needs."""

SCRIPTS = """
[broken]
what = "one that fails"
hours = 0.01
command = "python -c 'import sys; sys.exit(\\"no luck\\")'"

[goes_on]
what = "one that is interrupted when its folder is empty, and then resumes"
hours = 0.01
files = ["results.csv", "other.csv"]
seeds = [1, 2]
command = "GREETING=hello python $DATA/script.py $OUT $RUNS"

[silent]
what = "one that does not write what it should"
hours = 0.01
command = "python -c pass"
"""
SCRIPT = """
import os, pathlib, signal, sys
out, runs, *seeds = sys.argv[1:]
half = pathlib.Path(out, "half")
if not half.exists():
    half.touch()
    os.kill(os.getppid(), signal.SIGINT)
    signal.pause()
row = runs + "/ner", os.environ["GREETING"], "1"
pathlib.Path(out, "results.csv").write_text(f"path,{','.join(seeds[1:])}\\n{','.join(row)}\\n")
pathlib.Path(out, "other.csv").write_text("variant,f1\\n")
with open(out + "/calls", "a") as calls:
    calls.write("called ")
"""


@pytest.fixture
def paper(tmp_path):
    """Runs the task with the experiments of a TOML text."""

    def run(experiments, *words):
        (tmp_path / "experiments.toml").write_text(experiments)
        results = ["--results", str(tmp_path / "results")]
        main(["paper", *words, *results, "--experiments", str(tmp_path / "experiments.toml")])

    return run


def test_interrupted_and_failing_experiments(paper, tmp_path, capsys):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/script.py").write_text(SCRIPT)
    words = [str(tmp_path / "data"), str(tmp_path / "runs")]
    with pytest.raises(KeyboardInterrupt):
        paper(SCRIPTS, *words)
    paper(SCRIPTS, *words, "--list")
    states = [row.split(" | ")[-1] for row in capsys.readouterr().out.splitlines()[-3:]]
    assert states == ["begun |", "begun |", " |"]
    for _ in range(2):
        with pytest.raises(SystemExit, match=r"^2 of 3.*broken, silent$"):
            paper(SCRIPTS, *words)
        shown = capsys.readouterr().out
        assert f"broken: failed with 1, {tmp_path / 'runs/broken.log'} says why" in shown
        assert "2 of 3  goes_on: done" in shown
        assert "silent: failed: " in shown
    assert (tmp_path / "runs/broken.log").read_text() == "no luck\n" * 3
    assert (tmp_path / "runs/goes_on/calls").read_text() == "called "
    # No paths of this machine
    assert (tmp_path / "results/goes_on.csv").read_text() == "path,1,2\nner,hello,1\n"
    assert (tmp_path / "results/goes_on_other.csv").exists()
    with open(tmp_path / "runs/goes_on.log", "a") as log:
        lock_descriptor(log.fileno(), blocking=False)
        with pytest.raises(SystemExit, match="1 of 1 failed"):
            paper(SCRIPTS, *words, "--only", "goes_on", "--seeds", "3", "4")
    assert "runs/goes_on is in use" in capsys.readouterr().out
    paper(SCRIPTS, *words, "--only", "goes_on", "--seeds", "3", "4")
    assert Table.read(tmp_path / "results/goes_on.csv").columns == ("path", "3", "4")


def test_the_experiments_of_the_paper():
    """The programs accept their commands."""
    experiments = read_experiments()
    names = list(experiments)
    allennlp = ArgumentParser()
    ElmoGroup().add_subparser(allennlp.add_subparsers())
    for experiment in experiments.values():
        words = experiment.words({"DATA": "data", "RUNS": "runs", "OUT": "runs/out"})
        if "allennlp" in words:
            allennlp.parse_args(words[words.index("allennlp") + 1 :])
        elif find_spec(NEEDS.get(words[words.index("benchmarks") + 1], "torch")):
            task, *arguments = words[words.index("benchmarks") + 1 :]
            parser = ArgumentParser()
            load_task(task).add_arguments(parser)
            parser.parse_args(arguments)
        before = names[: names.index(experiment.name)]
        # The lines that it reads of other runs stand before it.
        assert set(re.findall(r"\$RUNS/(\w+)", experiment.command)) <= set(before)
        for config in re.findall(r"training_configs/\S+", experiment.command):
            assert bundled(config).exists()
        for overrides in (word for word in words if word.startswith("{")):
            assert json.loads(overrides)
