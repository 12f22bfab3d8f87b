import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import allennlp.commands
import pytest
from allennlp.models.archival import archive_model

import elmo_tasks  # noqa: F401
from elmo_tasks.commands import embed, experiments
from elmo_tasks.common import progress
from elmo_tasks.common.files import bundled
from elmo_tasks.elmo import files
from elmo_tasks.training.experiments import TrainingRun
from tests.commands.texts import TEXT
from tests.elmo.files import FILLING, make_files
from tests.forked import exit_code
from tests.ner.archives import write_run
from tests.training.runs import finish

Verb = Callable[..., int]


@pytest.fixture
def elmo(monkeypatch: pytest.MonkeyPatch) -> Verb:
    """Runs `allennlp elmo ...` in this process, which has its plug-ins already; returns the exit code."""
    monkeypatch.setattr(allennlp.commands, "import_plugins", lambda: None)

    def run(*arguments: Any) -> int:
        monkeypatch.setattr(sys, "argv", ["allennlp", "elmo", *map(str, arguments)])
        return exit_code()

    return run


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress bars are shown, and at once, as they are after two seconds where stderr is a terminal."""
    monkeypatch.setattr(progress, "log_options", dict)
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[TrainingRun]:
    """Nothing is trained: the runs in the order in which they would be, each with a random score an epoch."""
    done: list[TrainingRun] = []

    def train(
        runs: list[TrainingRun], *, jobs: int, packages: Sequence[str], report: Callable[[TrainingRun], None]
    ) -> None:
        for run in runs:
            if run.metrics() is None:
                draw = random.Random(str(run))
                finish(run, [draw.random() for _ in range(3)])
                done.append(run)
                report(run)

    monkeypatch.setattr(experiments, "train", train)
    return done


@pytest.fixture(scope="session")
def small_bilm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_files(tmp_path_factory.mktemp("small") / "bilm", **FILLING)


@pytest.fixture
def small_default(small_bilm: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A small biLM is the default: the one of the project takes longer to read than a text to embed."""
    for name, path in zip(("DEFAULT_OPTIONS", "DEFAULT_WEIGHTS"), small_bilm, strict=True):
        monkeypatch.setattr(files, name, str(path))


@pytest.fixture(scope="session")
def ner_archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The archive of a tiny NER model, beside its run."""
    folder = tmp_path_factory.mktemp("ner") / "run"
    write_run(folder, seed=1, bilm=bundled("fixtures/elmo").resolve())
    return str(archive_model(folder))


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def output(tmp_path) -> Path:
    return tmp_path / "out.hdf5"


@pytest.fixture
def small_shards(monkeypatch):
    """Several shards in one process, of several batches each with `--batch-tokens 4`."""
    monkeypatch.setattr(embed, "SHARD_BYTES", 50)
    monkeypatch.setattr(embed, "CAN_FORK", False)
