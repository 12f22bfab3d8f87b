"""AllenNLP's own commands, each on a tiny model of every task."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import allennlp.commands
import pytest

from elmo_tasks.common.files import bundled
from tests.conftest import TINY_ELMO

SMALL_WORDS = {"model.text_field_embedder.token_embedders.tokens.embedding_dim": 8}
SMALL_CHARACTERS = {"model.text_field_embedder.token_embedders.token_characters.num_filters": 4}


class Task(NamedTuple):
    """A config, what makes its model tiny, what the model says of an instance, and a suite of checks."""

    config: str
    sizes: dict[str, Any]
    says: str
    suite: dict[str, Any] | None = None


TASKS = {
    "ner": Task("ner_elmo", {**SMALL_CHARACTERS, "model.hidden_sizes": [8]}, "entities"),
    "srl": Task("srl_elmo", {"model.predicate_dim": 4, "model.hidden_size": 8}, "predicates"),
    "coref": Task("coref_elmo", {"model.hidden_sizes": [8], "model.feedforward_sizes": [8]}, "clusters"),
    "squad": Task(
        "squad_elmo", {**SMALL_CHARACTERS, "model.hidden_size": 8, "model.linear_size": 8}, "n_best"
    ),
    "snli": Task("snli_elmo", {"model.hidden_size": 8}, "probabilities"),
    "sst": Task(
        "sst_elmo",
        {"model.projection_size": 8, "model.hidden_size": 8, "model.classifier_sizes": [8]},
        "probabilities",
    ),
    "classification": Task("agnews_elmo", {"model.hidden_sizes": [8]}, "probabilities"),
}
Command = Callable[..., None]


@pytest.fixture(scope="module")
def command() -> Command:
    """Runs `allennlp ...` in this process, which has its plug-ins already."""

    def run(*arguments: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(allennlp.commands, "import_plugins", lambda: None)
            patch.setattr(sys, "argv", ["allennlp", *map(str, arguments)])
            allennlp.commands.main(prog="allennlp")

    return run


@pytest.fixture(scope="module", params=TASKS)
def task(request: pytest.FixtureRequest) -> Task:
    return TASKS[request.param]


@pytest.fixture(scope="module")
def of_config(task: Task) -> list[Any]:
    """The config, and how it is made tiny: two epochs of two batches."""
    overrides = {
        **SMALL_WORDS,
        **TINY_ELMO,
        **task.sizes,
        "trainer.num_epochs": 2,
        "data_loader.batches_per_epoch": 2,
    }
    return [bundled(f"training_configs/{task.config}.jsonnet").resolve(), "-o", json.dumps(overrides)]


@pytest.fixture(scope="module")
def run(command: Command, of_config: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    """Of a run that was killed in its second epoch."""
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
        return [tmp_path / f"{number}.{kind}" for number, _ in enumerate(texts)]

    command(
        *("evaluate", run / "model.tar.gz", ",".join(texts)),
        *("--output-file", ",".join(map(str, outputs("json")))),
        *("--predictions-output-file", ",".join(map(str, outputs("jsonl")))),
    )
    for metrics, predictions in zip(outputs("json"), outputs("jsonl"), strict=True):
        assert json.loads(metrics.read_text())["loss"] > 0
        batches = [json.loads(line) for line in predictions.read_text().splitlines()]
        assert batches
        for batch in batches:
            assert len(batch[task.says]) == len(batch["metadata"])
            # What the reader knows stands beside it, by its name
            assert all(
                set(known) & {"words", "passage", "premise", "sentence1"} for known in batch["metadata"]
            )


def test_predict_uses_the_reader(command, task, run, texts, tmp_path):
    output = tmp_path / "out.jsonl"
    command(
        *("predict", run / "model.tar.gz", texts[1], "--use-dataset-reader", "--silent"),
        *("--batch-size", 4, "--output-file", output),
    )
    results = [json.loads(line) for line in output.read_text().splitlines()]
    assert results
    assert all(task.says in result for result in results)


def test_find_lr(command, of_config, tmp_path):
    folder = tmp_path / "rates"
    command(
        *("find-lr", *of_config, "-s", folder),
        *("--num-batches", 11, "--start-lr", 1e-5, "--end-lr", 1e-2, "--stopping-factor", 100),
    )
    assert (folder / "lr-losses.png").stat().st_size


def test_vocabulary_and_dry_run(command, of_config, run, tmp_path):
    """Both make the vocabulary of the training."""
    command("build-vocab", *of_config[:1], tmp_path / "vocabulary.tar.gz", *of_config[1:])
    assert (tmp_path / "vocabulary.tar.gz").stat().st_size
    command("train", *of_config, "-s", tmp_path / "dry", "--dry-run")
    made, trained = (
        {path.name: path.read_text() for path in (folder / "vocabulary").glob("*.txt")}
        for folder in (tmp_path / "dry", run)
    )
    assert made == trained
    assert not list((tmp_path / "dry").glob("*.th"))


def test_print_results(command, run, capsys):
    command("print-results", run.parent, "--keys", "best_validation_loss", "training_loss")
    header, row = capsys.readouterr().out.splitlines()
    assert header == "model_run, best_validation_loss, training_loss"
    path, *losses = row.split(", ")
    assert os.path.samefile(path, run / "metrics.json") or os.path.samefile(path, run)
    metrics = json.loads((run / "metrics.json").read_text())
    assert list(map(float, losses)) == [metrics["best_validation_loss"], metrics["training_loss"]]
