"""AllenNLP's own commands: on a NER model with ELMo, and each on a tiny model of every task."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import allennlp.commands
import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive

from elmo_tasks.common.files import bundled
from elmo_tasks.data.input_files import input_files
from tests import fresh
from tests.conftest import TINY_ELMO, command_process
from tests.language_model.runs import metrics_of
from tests.pipeline.archives import SIZES

DEV = bundled("fixtures/ner/dev.conll").resolve()


def test_evaluate_gives_the_metrics_of_training(allennlp, trained_ner, tmp_path):
    allennlp("evaluate", trained_ner / "model.tar.gz", DEV, "--output-file", tmp_path / "metrics.json")
    evaluated, trained = json.loads((tmp_path / "metrics.json").read_text()), metrics_of(trained_ner)
    for name in ("precision", "recall", "f1", "accuracy", "f1-PER", "loss"):
        assert evaluated[name] == pytest.approx(trained[f"best_validation_{name}"], abs=1e-6)
    assert trained["training_f1"] > 0.1
    assert trained["training_reg_loss"] > 0


@pytest.mark.parametrize("key", ["options_file", "weight_file", "vocabulary_file", "initial_state"])
def test_overrides_of_what_an_archive_holds_are_refused(trained_ner, key):
    with pytest.raises(ConfigurationError, match=rf"model.elmo.{key}: .*'other'"):
        load_archive(trained_ner / "model.tar.gz", overrides={f"model.elmo.{key}": "other"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "info"),
    [({}, False), ({"ALLENNLP_LOG_LEVEL": "INFO"}, True), ({"ELMO_TASKS_PLUGIN": "0"}, True)],
)
def test_a_command_logs_warnings_unless_the_user_wants_more(settings, info, tmp_path):
    # `python -m allennlp` calls this function of `runpy`.
    done = fresh.run(f"""
import os, runpy, sys
del os.environ["ALLENNLP_LOG_LEVEL"]
os.environ.update({settings})
os.chdir({str(tmp_path)!r})
sys.argv = ["-m", "train", "nowhere.jsonnet", "-s", "run"]
runpy._run_module_as_main("allennlp")
""")
    assert done.returncode != 0
    assert "nowhere.jsonnet" in done.stderr
    assert "could not be loaded" not in done.stderr
    assert (" - INFO - " in done.stderr) == info


def test_names_of_the_project_are_found_anywhere_after_the_users_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "training_configs/ner_elmo.jsonnet"
    assert Params.from_file(name)["model"]["type"] == "elmo_ner"
    assert [path.name for path in input_files("fixtures/ner/dev.conll")] == ["dev.conll"]
    (tmp_path / "training_configs").mkdir()
    (tmp_path / name).write_text('{"mine": 1}')
    assert Params.from_file(name)["mine"] == 1


SAYS = {"ner": "entities", "srl": "predicates", "coref": "clusters", "squad": "n_best"}
SAYS |= dict.fromkeys(("snli", "sst", "agnews"), "probabilities")
"""For each config a field of the model's outputs."""
Run = Callable[..., None]


@pytest.fixture(scope="module")
def command() -> Run:
    """Runs `allennlp ...` in this process, which has its plug-ins already."""

    def run(*arguments: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(allennlp.commands, "import_plugins", lambda: None)
            patch.setattr(sys, "argv", ["allennlp", *map(str, arguments)])
            with command_process():
                allennlp.commands.main(prog="allennlp")

    return run


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name not in ("ner", "squad"))) for name in SAYS],
)
def task(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def of_config(task: str) -> list[Any]:
    """The config, and how it is made tiny: two epochs of two batches."""
    overrides = {
        "model.text_field_embedder.token_embedders.tokens.embedding_dim": 8,
        **TINY_ELMO,
        **{f"model.{name}": value for name, value in SIZES[task].items()},
        "trainer.num_epochs": 2,
        "data_loader.batches_per_epoch": 2,
    }
    return [bundled(f"training_configs/{task}_elmo.jsonnet").resolve(), "-o", json.dumps(overrides)]


@pytest.fixture(scope="module")
def run(command: Run, of_config: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    command("train", *of_config, "-s", folder)
    return folder


@pytest.fixture(scope="module")
def texts(run: Path) -> list[str]:
    """The training and the validation data."""
    config = json.loads((run / "config.json").read_text())
    return [config["train_data_path"], config["validation_data_path"]]


def test_train_recovers(command, of_config, run):
    metrics, archive = run / "metrics_epoch_1.json", run / "model.tar.gz"
    first = (run / "metrics_epoch_0.json").stat().st_mtime_ns
    whole = json.loads(metrics.read_text())
    for path in (metrics, archive, run / "metrics.json", *run.glob("*_state_e2*")):
        path.unlink()
    assert len(list(run.glob("*_state_e1*"))) == 2
    command("train", *of_config, "-s", run, "--recover")
    again = json.loads(metrics.read_text())
    for name in ("training_loss", "validation_loss"):
        assert again[name] == pytest.approx(whole[name])
    assert archive.exists()
    assert (run / "metrics_epoch_0.json").stat().st_mtime_ns == first


def test_evaluate_writes_predictions_of_several_files(command, task, run, texts, tmp_path):
    def outputs(kind: str) -> list[Path]:
        return [tmp_path / f"{i}.{kind}" for i, _ in enumerate(texts)]

    command(
        *("evaluate", run / "model.tar.gz", ",".join(texts)),
        *("--output-file", ",".join(map(str, outputs("json")))),
        *("--predictions-output-file", ",".join(map(str, outputs("jsonl")))),
    )
    for metrics, predictions in zip(outputs("json"), outputs("jsonl"), strict=True):
        assert json.loads(metrics.read_text())["loss"] > 0
        records = [json.loads(line) for line in predictions.read_text().splitlines()]
        assert records
        for record in records:
            assert SAYS[task] in record
            # The reader's metadata are part of it, by their names
            assert set(record["metadata"]) & {"words", "passage", "premise", "sentence1"}


def test_predict_uses_the_reader(command, task, run, texts, tmp_path):
    output = tmp_path / "out.jsonl"
    command(
        *("predict", run / "model.tar.gz", texts[1], "--use-dataset-reader", "--silent"),
        *("--batch-size", 4, "--output-file", output),
    )
    results = [json.loads(line) for line in output.read_text().splitlines()]
    assert results
    assert all(SAYS[task] in result for result in results)


ONE = pytest.mark.parametrize("task", ["ner"], indirect=True, scope="module")
"""Marks a test whose subject is the same for all tasks."""


@pytest.mark.slow
@ONE
def test_find_lr(command, of_config, tmp_path):
    folder = tmp_path / "rates"
    command(
        *("find-lr", *of_config, "-s", folder),
        *("--num-batches", 11, "--start-lr", 1e-5, "--end-lr", 1e-2, "--stopping-factor", 100),
    )
    assert (folder / "lr-losses.png").stat().st_size


@ONE
def test_vocabulary_and_dry_run(command, of_config, run, tmp_path):
    command("build-vocab", *of_config[:1], tmp_path / "vocabulary.tar.gz", *of_config[1:])
    assert (tmp_path / "vocabulary.tar.gz").stat().st_size
    command("train", *of_config, "-s", tmp_path / "dry", "--dry-run")
    made, trained = (
        {path.name: path.read_text() for path in (folder / "vocabulary").glob("*.txt")}
        for folder in (tmp_path / "dry", run)
    )
    assert made == trained
    assert not list((tmp_path / "dry").glob("*.th"))
