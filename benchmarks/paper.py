"""
The tables and figures of docs/results, by the experiments of benchmarks/paper.toml, one after the other.
Some small tables there have rows that were kept by hand.

Each experiment has a folder below OUT, a process of its own, and a log next to its folder. The same command
resumes after a kill, and skips finished experiments; an experiment that fails does not end the others. The
results go to `--results`, and `--page` makes the pages of it (benchmarks/page.py).
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from allennlp.common.checks import ConfigurationError
from filelock import lock_descriptor

from benchmarks.page import PROJECT, RESULTS, write_pages
from elmo_tasks.common.files import atomic_file
from elmo_tasks.common.table import Table
from elmo_tasks.data.input_files import InputError

EXPERIMENTS = Path(__file__).with_name("paper.toml")
ROWS = "results"
"""The stem of the file that has all rows of a task; it is kept under the name of the experiment alone."""
_SETTING = re.compile(r"[A-Z_]+=")


class Experiment(NamedTuple):
    """
    One command and what it leaves.

    # Parameters

    command : a shell command for the project's folder: `python` or `allennlp` after settings of the
        environment. `$DATA` and `$RUNS` are the folders that `paper` was given, `$OUT` is its own.
    like : an experiment whose command this one continues, with more options or others in their place.
    hours : what it takes on two cores, roughly.
    seeds : the command's option `--seeds`, if it has one.
    files : those in `$OUT` that are kept.
    """

    name: str
    what: str
    command: str
    hours: float
    seeds: tuple[int, ...] = ()
    files: tuple[str, ...] = (f"{ROWS}.csv",)
    like: "Experiment | None" = None

    def words(self, values: Mapping[str, object]) -> list[str]:
        """The whole command, split as a shell does, with the folders and seeds in it."""
        words = [Template(word).substitute(values) for word in shlex.split(self.whole_command())]
        return [*words, "--seeds", *map(str, self.seeds)] if self.seeds else words

    def whole_command(self) -> str:
        """Returns the command, after the command of `like`."""
        return f"{self.like.whole_command()} {self.command}" if self.like else self.command

    def kept_as(self, file: str) -> str:
        """Returns the name under which a file is kept among the files of all experiments."""
        stem, dot, kind = file.partition(".")
        return f"{self.name}{dot}{kind}" if stem in (ROWS, self.name) else f"{self.name}_{file}"


def read_experiments(path: Path = EXPERIMENTS) -> dict[str, Experiment]:
    """
    The experiments of a TOML file by their names, in the order of the file.

    # Raises
    `InputError`: the file is not TOML, or an experiment has wrong keys or a `like` that is not above it.
    """
    try:
        experiments: dict[str, Experiment] = {}
        for name, block in tomllib.loads(path.read_text(encoding="utf-8")).items():
            keys = {key: _fixed(value) for key, value in block.items()}
            if (like := keys.pop("like", None)) is not None:
                if like not in experiments:
                    raise InputError(f"like = {like!r} is not an experiment above", where=path)
                keys["like"] = experiments[like]
            experiments[name] = Experiment(name, **keys)
        return experiments
    except (tomllib.TOMLDecodeError, TypeError, AttributeError) as error:
        raise InputError(f"not a table of experiments ({error})", where=path) from error


def _fixed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class Paper:
    """
    The experiments in one folder of runs.

    # Parameters

    data : folder of all data.
    runs : folder to which each experiment adds its own.
    results : folder of what is kept.
    """

    def __init__(self, *, data: Path, runs: Path, results: Path) -> None:
        self._data, self._runs, self._results = data.resolve(), runs.resolve(), results

    def run(self, experiments: Iterable[Experiment]) -> list[str]:
        """Runs what is not done; the names of those that failed."""
        failed, todo = [], list(experiments)
        for number, experiment in enumerate(todo, start=1):
            head = f"{number} of {len(todo)}  {experiment.name}"
            if self.state(experiment) != "done":
                print(
                    f"{head}: {experiment.what}; about {experiment.hours:g} h; log: {self._log(experiment)}",
                    flush=True,
                )
            began = time.monotonic()
            error = self._run(experiment)
            taken = timedelta(seconds=round(time.monotonic() - began))
            print(f"{head}: {error or 'done'}, {taken}", flush=True)
            if error:
                failed.append(experiment.name)
        return failed

    def state(self, experiment: Experiment) -> str:
        """`done` by the same command, `begun`, or empty."""
        done = self._done(experiment)
        if done.exists() and json.loads(done.read_text(encoding="utf-8")) == self._words(experiment):
            return "done"
        return "begun" if done.parent.exists() else ""

    def _run(self, experiment: Experiment) -> str:
        """Runs one experiment unless it is done, and keeps its files; what went wrong."""
        if self.state(experiment) != "done":
            done, words = self._done(experiment), self._words(experiment)
            done.parent.mkdir(parents=True, exist_ok=True)
            with open(self._log(experiment), "a", encoding="utf-8") as log:
                # The command inherits the lock, and keeps it if this process is killed first.
                if not lock_descriptor(log.fileno(), blocking=False):
                    return f"{done.parent} is in use by another process"
                code = _call(words, log.fileno())
            if code:
                return f"failed with {code}, {self._log(experiment)} says why"
            _write(done, json.dumps(words))
        for file in experiment.files:
            try:
                self._keep(experiment, file)
            except OSError as error:
                return f"failed: {error}"
        return ""

    def _keep(self, experiment: Experiment, file: str) -> None:
        """Copies a file of an experiment, without the paths of this machine."""
        text = (self._runs / experiment.name / file).read_text(encoding="utf-8")
        for folder in (self._runs, self._data):
            text = text.replace(f"{folder}{os.sep}", "")
        self._results.mkdir(parents=True, exist_ok=True)
        _write(self._results / experiment.kept_as(file), text)

    def _words(self, experiment: Experiment) -> list[str]:
        return experiment.words({"DATA": self._data, "RUNS": self._runs, "OUT": self._runs / experiment.name})

    def _done(self, experiment: Experiment) -> Path:
        """A file with the words of the command that ended well."""
        return self._runs / experiment.name / "done.json"

    def _log(self, experiment: Experiment) -> Path:
        return self._runs / f"{experiment.name}.log"


def _call(words: list[str], log: int) -> int:
    """The exit code of a command, after settings of its environment; all that it shows goes to the log."""
    settings = [word for word in words if _SETTING.match(word)]
    program, *arguments = words[len(settings) :]
    start = [sys.executable] if program == "python" else [sys.executable, "-m", program]
    environment = os.environ | dict(setting.split("=", 1) for setting in settings)
    return subprocess.run(
        [*start, *arguments], stdout=log, stderr=log, env=environment, cwd=PROJECT
    ).returncode


def _write(path: Path, text: str) -> None:
    with atomic_file(path) as file:
        file.write(text.encode())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, nargs="?", help="folder of all data")
    parser.add_argument(
        "output", type=Path, nargs="?", help="folder of the runs; a killed command resumes there"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these experiments")
    parser.add_argument("--list", action="store_true", help="show the experiments and their states, run none")
    parser.add_argument("--seeds", type=int, nargs="+", help="replace the seeds of each experiment")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the CSV files and figures")
    parser.add_argument(
        "--experiments", type=Path, default=EXPERIMENTS, metavar="TOML", help="others than the paper's"
    )
    parser.add_argument("--page", action="store_true", help="make the pages of --results, run nothing")


def run(arguments: argparse.Namespace) -> None:
    experiments = read_experiments(arguments.experiments)
    if arguments.page:
        write_pages(arguments.results, {name: experiment.command for name, experiment in experiments.items()})
        return
    if arguments.output is None:
        raise ConfigurationError("give DATA and OUT, or --page")
    if unknown := [name for name in arguments.only or () if name not in experiments]:
        raise ConfigurationError(
            f"--only: {', '.join(unknown)} is not among the experiments {', '.join(experiments)}"
        )
    chosen = [
        experiment._replace(seeds=tuple(arguments.seeds))
        if arguments.seeds and experiment.seeds
        else experiment
        for name, experiment in experiments.items()
        if name in (arguments.only or experiments)
    ]
    paper = Paper(data=arguments.data, runs=arguments.output, results=arguments.results)
    if arguments.list:
        table = Table(("name", "what", "hours", "seeds", "state"))
        for experiment in chosen:
            seeds = " ".join(map(str, experiment.seeds))
            table.add(
                experiment.name, experiment.what, f"{experiment.hours:g}", seeds, paper.state(experiment)
            )
        print(table.markdown(), end="")
        return
    if failed := paper.run(chosen):
        sys.exit(f"{len(failed)} of {len(chosen)} failed: {', '.join(failed)}")
