"""A command that is killed, or has a full disk, and then goes on: as one that was not, and nothing half."""

import gzip
import json
import os
import random
import resource
import signal
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import allennlp.commands.train
import pytest
import torch

from elmo_tasks.common.files import bundled
from tests.forked import Command, warm_up
from tests.robustness.attempt import FUZZ

KILLS = max(2, 2 * FUZZ // 5)
"""The kills of each command."""
LONG = pytest.mark.skipif(FUZZ == 1, reason="make fuzz")
FILES = {name: bundled(f"fixtures/{name}").resolve() for name in ("elmo", "ner", "classification/sst2")}


@dataclass
class Case:
    """
    # Parameters

    command : that starts the work in a folder.
    go_on : that goes on with it.
    result : everything in the folder that matters.
    whole : the same, of those results that are there already and a user would take for whole.
    """

    command: Callable[[Path], list[object]]
    go_on: Callable[[Path], list[object]]
    result: Callable[[Path], dict[str, Any]]
    whole: Callable[[Path], dict[str, Any]]


def contents(*names: str, last: str | None = None) -> Callable[[Path], dict[str, Any]]:
    """The bytes of files; those that do not have the `last` one yet are of no use."""

    def read(folder: Path) -> dict[str, Any]:
        if last is not None and not (folder / last).exists():
            return {}
        return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}

    return read


def embed_case(*options: str) -> Case:
    def command(folder: Path) -> list[object]:
        text, bilm = folder.parent / "text.txt", FILES["elmo"]
        text.write_text((bilm / "sentences.txt").read_text() * 4)
        files = ["--options-file", bilm / "options.json", "--weight-file", bilm / "weights.safetensors"]
        return ["elmo", "embed", text, folder / "out.hdf5", *files, *options]

    result = contents("out.hdf5")
    return Case(command, lambda folder: [*command(folder), "--resume"], result, result)


def vectors_case(method: str, name: str, *options: str) -> Case:
    def command(folder: Path) -> list[object]:
        text = bundled("fixtures/evaluation/corpus.txt").resolve()
        return ["elmo", "vectors", method, text, folder / name, "--dim", "20", "--min-count", "1", *options]

    def result(folder: Path) -> dict[str, Any]:
        if not (folder / name).exists():
            return {}
        content = (folder / name).read_bytes()
        return {name: gzip.decompress(content) if name.endswith(".gz") else content}

    return Case(command, lambda folder: [*command(folder), "--force"], result, result)


def export_case(run: Path) -> Case:
    def command(folder: Path) -> list[object]:
        return ["elmo", "export", run / "model.tar.gz", folder / "bilm"]

    result = contents("bilm/weights.hdf5", "bilm/options.json", last="bilm/options.json")
    return Case(command, lambda folder: [*command(folder), "--force"], result, result)


def metrics(folder: Path) -> dict[str, Any]:
    """Returns a run's metrics without times and bytes of memory, and the weights in its archive."""
    values = json.loads((folder / "metrics.json").read_text())
    with tarfile.open(folder / "model.tar.gz") as archive:
        file = archive.extractfile("weights.th")
        assert file is not None
        weights = torch.load(file, weights_only=True)
        while archive.next() is not None:
            pass
    return {
        **{f"weights of {name}": value.tolist() for name, value in weights.items()},
        **{
            f"{folder.name} {name}": value
            for name, value in values.items()
            if not name.endswith(("duration", "MB"))
        },
    }


def training_case(command: Callable[[Path], list[object]]) -> Case:
    def go_on(folder: Path) -> list[object]:
        # A run that was killed before it had a config has nothing to go on from.
        try:
            json.loads((folder / "run/config.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return [*command(folder), "--force"]
        return [*command(folder), "--recover"]

    # A half archive is refused by all that read it: see tests/robustness/archives_test.py.
    return Case(command, go_on, lambda folder: metrics(folder / "run"), lambda folder: {})


def train_case(**overrides: Any) -> Case:
    settings = {
        "train_data_path": str(FILES["ner"] / "dev.conll"),
        "model.hidden_sizes": [8],
        "data_loader.batch_sampler.batch_size": 16,
        "trainer.num_epochs": 3,
        "trainer.patience": 1,
        "trainer.optimizer.lr": 0.02,
        "trainer.checkpointer.keep_most_recent_by_count": 2,
        **{
            f"model.elmo.{key}": str(FILES["elmo"] / name)
            for key, name in (("options_file", "options.json"), ("weight_file", "weights.safetensors"))
        },
        **overrides,
    }

    def command(folder: Path) -> list[object]:
        config = bundled("training_configs/ner_elmo.jsonnet").resolve()
        own = {
            key: str(folder / value) if key.endswith("activations") else value
            for key, value in settings.items()
        }
        return ["train", config, "-s", folder / "run", "-o", json.dumps(own)]

    return training_case(command)


def within_an_epoch_case(**overrides: Any) -> Case:
    """A training that saves within an epoch, whose training metrics then cover the batches after a kill."""

    def result(folder: Path) -> dict[str, Any]:
        values = metrics(folder / "run").items()
        return {name: value for name, value in values if not name.startswith("run training_")}

    case = train_case(**{"trainer.checkpointer.save_every_num_batches": 2}, **overrides)
    return replace(case, result=result)


def own_data_case(verb: str, data: str) -> Case:
    def command(folder: Path) -> list[object]:
        return ["elmo", verb, bundled(data).resolve(), "-o", folder / "run", "--epochs", 2]

    return training_case(command)


def experiments_case(verb: str, *options: object) -> Case:
    """Each run of a verb that trains several."""

    def command(folder: Path) -> list[object]:
        config = bundled("training_configs/sst2_elmo.jsonnet").resolve()
        overrides = {
            "model.hidden_sizes": [4],
            "model.text_field_embedder.token_embedders.tokens.embedding_dim": 5,
            "trainer.num_epochs": 2,
        }
        return ["elmo", verb, config, folder / "out", "--seeds", "1", *options, "-o", json.dumps(overrides)]

    def done(folder: Path) -> list[Path]:
        return [
            path.parent
            for path in sorted(folder.glob("out/*/seed-1/metrics.json"))
            if not (path.parent / "best.th").exists()
        ]

    def result(folder: Path) -> dict[str, Any]:
        tables = {path.name: path.read_bytes() for path in folder.glob("out/*.csv")}
        return {**tables, **{str(run.relative_to(folder)): metrics(run) for run in done(folder)}}

    return Case(command, command, result, result)


CASES: dict[str, Callable[[Path], Case]] = {
    "embed": lambda run: embed_case(),
    "export": export_case,
    "vectors": lambda run: vectors_case("svd", "out.txt"),
    "train": lambda run: train_case(),
}
LONG_CASES: dict[str, Callable[[Path], Case]] = {
    "embed, stateful": lambda run: embed_case("--stateful", "--layers", "top"),
    "vectors, packed": lambda run: vectors_case("svd", "out.txt.gz"),
    "vectors, word2vec": lambda run: vectors_case("word2vec", "out.txt"),
    "train, activations kept": lambda run: train_case(**{"model.elmo.activations": "activations"}),
    "train, within an epoch": lambda run: within_an_epoch_case(),
    "train, stateful": lambda run: within_an_epoch_case(**{"model.elmo.stateful": True}),
    "train, two workers": lambda run: train_case(distributed={"cuda_devices": [-1, -1]}),
    "classify": lambda run: own_data_case("classify", "fixtures/classification/sst2/dev.tsv"),
    "tag": lambda run: own_data_case("tag", "fixtures/ner/dev.conll"),
    "ablate": lambda run: experiments_case("ablate", "--tables", "placement"),
    "compare": lambda run: experiments_case("compare", "--variants", "frozen", "svd", "no-elmo"),
}


@pytest.fixture(scope="module", autouse=True)
def imported():
    warm_up()


NEEDS = {"embed": "h5py", "export": "h5py", "word2vec": "gensim", "kept": "lmdb"}
"""Packages that a case needs, by a word of its name."""


@pytest.fixture(params=[*CASES, *(pytest.param(name, marks=LONG) for name in LONG_CASES)])
def name(request):
    return request.param


def steps_of(folder: Path) -> Path:
    """The file with a byte for each step of a command."""
    return folder.with_name(f"{folder.name}.steps")


def kill() -> None:
    """Kills the command with its children."""
    os.killpg(0, signal.SIGKILL)


def at_step(number: int, folder: Path, act: Callable[[], object] = kill) -> None:
    """Acts at a step of a command: when it opens, renames or removes a file in its folder."""
    steps = os.open(steps_of(folder), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def step(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.rename", "os.remove") and str(arguments[0]).startswith(f"{folder}{os.sep}"):
            os.write(steps, b".")
            if os.fstat(steps).st_size == number:
                act()

    sys.addaudithook(step)


def moments(name: str, number: int) -> list[float]:
    """Shares of the steps of a command, the same in each short run."""
    draw = random.Random(name if FUZZ == 1 else None)
    return [draw.random() for _ in range(number)]


class Whole(NamedTuple):
    """The results of a command that is not stopped, and its steps, see `at_step`."""

    result: dict[str, Any]
    steps: int
    largest: int
    """The bytes of its largest file."""


def uninterrupted(case: Case, folder: Path) -> Whole:
    folder.mkdir()
    Command(case.command(folder), folder / "log", partial(at_step, -1, folder)).succeed()
    result = case.result(folder)
    assert result
    steps = steps_of(folder).stat().st_size
    return Whole(result, steps, max(path.stat().st_size for path in folder.rglob("*") if path.is_file()))


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    """The case of a name, and what it does; once a name."""

    @cache
    def of(name: str) -> tuple[Case, Whole]:
        for word, package in NEEDS.items():
            if word in name:
                pytest.importorskip(package)
        case = (CASES | LONG_CASES)[name](run)
        return case, uninterrupted(case, tmp_path_factory.mktemp("whole") / "whole")

    return of


def go_on(case: Case, folder: Path, result: dict[str, Any]) -> None:
    """Checks the files that a kill left, resumes the command, and checks the files of the whole run."""
    already = case.whole(folder)
    assert already == {key: result.get(key) for key in already}
    Command(case.go_on(folder), folder / "log").succeed()
    after = case.result(folder)
    assert after.keys() == result.keys()
    assert {key for key in result if after[key] != result[key]} == set()
    assert not list(folder.rglob("*.partial"))


@pytest.mark.slow
def test_killed(name, whole, tmp_path):
    """At steps that nobody has chosen, some of them in the second try, too."""
    case, (result, steps, _) = whole(name)
    for i, moment in enumerate(moments(name, KILLS)):
        folder = tmp_path / f"killed{i}"
        folder.mkdir()
        at = partial(at_step, 1 + int(moment * steps), folder)
        assert Command(case.command(folder), folder / "log", at).finish() == -signal.SIGKILL
        if i % 4 == 3:
            Command(case.go_on(folder), folder / "log", at).finish()
        go_on(case, folder, result)


def kill_in_archive() -> None:
    """When the first bytes of `model.tar.gz` are there."""

    def half(folder: str, **options: object) -> None:
        (Path(folder) / "model.tar.gz").write_bytes(b"\x1f\x8b")
        os.kill(os.getpid(), signal.SIGKILL)

    patch.object(allennlp.commands.train, "archive_model", half).start()


@pytest.mark.parametrize(
    "overrides",
    [{"trainer.num_epochs": 1}, {"trainer.validation_metric": "-f1"}],
    ids=["after the last epoch", "after early stopping"],
)
def test_killed_before_the_archive_is_whole(tmp_path, overrides):
    """There is nothing left to train, and the metrics are those of all epochs."""
    case = train_case(**overrides)
    result = uninterrupted(case, tmp_path / "whole").result
    assert result["run epoch"] == (0 if "trainer.num_epochs" in overrides else 1)
    folder = tmp_path / "killed"
    folder.mkdir()
    assert Command(case.command(folder), folder / "log", kill_in_archive).finish() == -signal.SIGKILL
    go_on(case, folder, result)


@pytest.mark.slow
def test_a_run_of_several_that_is_killed_before_its_archive_is_whole(tmp_path):
    case = experiments_case("compare", "--variants", "no-elmo")
    result = uninterrupted(case, tmp_path / "whole").result
    folder = tmp_path / "killed"
    folder.mkdir()
    assert Command(case.command(folder), folder / "log", kill_in_archive).finish() == 1
    assert list(folder.rglob("metrics.json"))
    go_on(case, folder, result)


def small_disk(size: int) -> None:
    """As far as a limit for files looks like one."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("name", CASES)
def test_full_disk(name, whole, tmp_path):
    """It ends with a line; with more room it goes on."""
    case, (result, _, largest) = whole(name)
    for i, share in enumerate(moments(name, KILLS // 2)):
        folder = tmp_path / f"full{i}"
        folder.mkdir()
        size = int(share * largest)
        command = Command(case.command(folder), folder / "log", partial(small_disk, size))
        assert command.finish() == 1
        # Its output is on this disk, too, and may be cut off in the middle of a line.
        assert "Traceback" not in (log := command.log.read_text()) or len(log.encode()) == size
        go_on(case, folder, result)


def become_link(folder: Path, target: Path) -> None:
    if folder.exists():
        folder.rename(folder.with_name("away"))
        folder.symlink_to(target)


@LONG
def test_a_folder_that_becomes_a_link(whole, tmp_path):
    case, (_, steps, _) = whole("embed")
    thesis = tmp_path / "thesis"
    (thesis / "notes").mkdir(parents=True)
    for file in (files := [thesis / "text", thesis / "notes/text"]):
        file.write_text("mine")
    for i, moment in enumerate(moments("link", 2 * KILLS)):
        folder = tmp_path / f"link{i}"
        folder.mkdir()
        act = partial(become_link, folder / "out.hdf5.partial", thesis)
        at = partial(at_step, 1 + int(moment * steps), folder, act)
        Command(case.command(folder), folder / "log", at).finish()
        assert [file.read_text() for file in files] == ["mine", "mine"]


def test_two_runs_keep_activations_in_one_folder_and_one_is_killed(whole, tmp_path):
    pytest.importorskip("lmdb")
    _, (result, steps, _) = whole("train")
    case = train_case(**{"model.elmo.activations": str(tmp_path / "activations")})
    for i, moment in enumerate(moments("two", KILLS // 2)):
        folders = [tmp_path / f"{name}{i}" for name in ("killed", "other")]
        for folder in folders:
            folder.mkdir()
        at = partial(at_step, 1 + int(moment * steps), folders[0])
        killed = Command(case.command(folders[0]), folders[0] / "log", at)
        Command(case.command(folders[1]), folders[1] / "log").succeed()
        assert killed.finish() == -signal.SIGKILL
        Command(case.go_on(folders[0]), folders[0] / "log").succeed()
        for folder in folders:
            after = case.result(folder)
            assert after.keys() == result.keys()
            for key, value in result.items():
                assert torch.allclose(torch.as_tensor(after[key]), torch.as_tensor(value), atol=1e-4), key
