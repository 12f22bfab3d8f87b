"""`allennlp train`: wrong data and configs are found at the start, and a run goes on for more epochs."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from allennlp.commands import train
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training import GradientDescentTrainer
from allennlp.training import util as training_util

from elmo_tasks.archives.opening import open_archive
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import bundled
from elmo_tasks.ner.crf import Chain
from tests.ner.archives import DEV

NER = str(bundled("training_configs/ner.jsonnet").resolve())
SHORT = {"train_data_path": DEV, "model.hidden_sizes": [8]}
"""Overrides that make a training short."""
TASKS = ("ner", "srl", "coref", "squad", "snli", "sst", "agnews", "bilm", "bilm_words", "mrpc_bilm")
WRONG = {
    "missing": None,
    "empty": b"",
    "not UTF-8": b"caf\xe9 U-N O\n",
    "far below": b"a b\n" * 999 + b"\xe9\n",
}


def config_of(task: str, **overrides) -> Params:
    return Params.from_file(bundled(f"training_configs/{task}.jsonnet").resolve(), json.dumps(overrides))


@pytest.mark.parametrize(
    ("task", "key"), [*((task, "validation_data_path") for task in TASKS), ("ner", "test_data_path")]
)
def test_wrong_data_are_found_before_training(tmp_path, monkeypatch, task, key):
    """The training data are not even read."""
    monkeypatch.setattr(GradientDescentTrainer, "train", lambda self: pytest.fail("it trains"))
    texts = WRONG if "bilm" in task else dict(list(WRONG.items())[:3])
    params = config_of(task, train_data_path="nothing", evaluate_on_test=key == "test_data_path")
    for i, content in enumerate(texts.values()):
        path = tmp_path / f"{i}.txt"
        if content is not None:
            path.write_bytes(content)
        config = params.duplicate()
        config[key] = str(path)
        with pytest.raises((ConfigurationError, OSError), match=str(path)):
            train.train_model(config, tmp_path / "run", force=True)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"distributed": {"cuda_devices": [98, 99]}},
            "distributed.cuda_devices: found the GPU 98 on a machine ",
        ),
        ({"distributed": {"cuda_devices": ["cuda:98"]}}, "distributed.cuda_devices: found the GPU 98 on "),
        (
            {"distributed": {"cuda_devices": ["cpu", "gpu"]}},
            "distributed.cuda_devices is 'gpu', expected cpu, ",
        ),
    ],
    ids=["GPUs", "a GPU by its name", "no device"],
)
def test_a_config_that_needs_what_is_not_there(tmp_path, overrides, message):
    with pytest.raises((ConfigurationError, ElmoError)) as caught:
        train.train_model(config_of("ner", **overrides), tmp_path / "run")
    assert str(caught.value).startswith(message)


def test_a_metric_that_the_model_will_not_have(tmp_path):
    """It is found before the first epoch; the metrics of a type are known after it."""

    def train_by(metric):
        overrides = SHORT | {"trainer.num_epochs": 1, "trainer.validation_metric": metric}
        train.train_model(config_of("ner", **overrides), tmp_path / "run", force=True)

    with pytest.raises(ConfigurationError, match=r"^validation_metric: found 'f2-LOC', .*accuracy, f1, "):
        train_by("+f2-LOC")
    assert not list((tmp_path / "run").glob("metrics_epoch_*"))
    train_by("+f1-LOC")


def test_a_training_that_diverges(tmp_path, monkeypatch):
    monkeypatch.setattr(Chain, "log_likelihood", lambda self, tags: torch.full((len(tags),), torch.nan))
    with pytest.raises(ConfigurationError, match=r"^epoch 1, batch 1: "):
        train.train_model(config_of("ner", **SHORT), tmp_path)


@pytest.mark.parametrize("name", ["", "a.conll", "*.conll", "a.zip!a.conll"])
def test_force_keeps_what_the_run_reads(tmp_path, name):
    """Only data in the folder of the run is refused; `run2` is another folder than `run`."""
    run = tmp_path / "run"
    for folder in (run, tmp_path / "run2"):
        folder.mkdir()
        for file in ("a.conll", "a.zip"):
            (folder / file).touch()
    inside, beside = (
        Params({"train_data_path": f"{tmp_path}/{folder}/{name}"}) for folder in ("run", "run2")
    )
    with pytest.raises(ConfigurationError, match=r"^--force: found train_data_path "):
        training_util.create_serialization_dir(inside, run, recover=False, force=True)
    assert (run / "a.conll").exists()
    training_util.create_serialization_dir(beside, run, recover=False, force=True)
    assert not (run / "a.conll").exists()


@pytest.fixture(scope="module")
def runs(allennlp, tmp_path_factory):
    """The folder of a finished run of two epochs, and of one of four."""
    folder = tmp_path_factory.mktemp("runs")
    for epochs in (2, 4):
        overrides = json.dumps(SHORT | {"trainer.num_epochs": epochs, "trainer.patience": None})
        allennlp("train", NER, "-s", folder / str(epochs), "-o", overrides)
    return folder


def test_a_pretrained_module_of_another_vocabulary(runs, tmp_path):
    def train_on(**overrides):
        config = config_of(
            "ner", **{"trainer.num_epochs": 1, "train_data_path": str(tmp_path / "few"), **overrides}
        )
        pretrained = {"archive_file": str(runs / "2/model.tar.gz"), "module_path": "text_field_embedder"}
        config["model"]["text_field_embedder"] = {"_pretrained": pretrained}
        train.train_model(config, tmp_path / "run", force=True)

    (tmp_path / "few").write_text(Path(DEV).read_text()[:300])
    with pytest.raises(ConfigurationError, match="_pretrained: text_field_embedder"):
        train_on()
    train_on(vocabulary={"type": "from_files", "directory": str(runs / "2/model.tar.gz")})
    given, taken = (open_archive(path / "model.tar.gz").model for path in (runs / "2", tmp_path / "run"))
    assert torch.equal(*(model.text_field_embedder.token_embedder_tokens.weight for model in (given, taken)))


class TestRecover:
    """`--recover` with another config."""

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (
                {"trainer.num_gradient_accumulation_steps": 2},
                "num_gradient_accumulation_steps 2 in place of nothing",
            ),
            ({"trainer.no_grad": ["x"]}, 'trainer.no_grad ["x"] in place of nothing'),
            (
                {"trainer.learning_rate_scheduler": {"type": "noam", "model_size": 9, "warmup_steps": 1}},
                'learning_rate_scheduler.type "noam" in place',
            ),
            ({"evaluate_on_test": True, "test_data_path": DEV}, "evaluate_on_test true in place of nothing"),
            ({"trainer.num_epochs": 1}, "trainer.num_epochs 1 in place of 2"),
            ({"trainer.patience": 3}, "trainer.patience 3 in place of null"),
            (
                {"random_seed": 5, "model.dropout": 0.25},
                "model.dropout 0.25 in place of 0.5, random_seed 5 in place ",
            ),
        ],
        ids=str,
    )
    def test_it_names_the_keys_that_differ(self, runs, more, message):
        config = config_of("ner", **{**SHORT, "trainer.num_epochs": 2, "trainer.patience": None, **more})
        with pytest.raises(ConfigurationError) as caught:
            train.train_model(config, runs / "2", recover=True)
        assert str(caught.value).startswith("--recover: found ")
        assert message in str(caught.value)

    def test_a_finished_run_goes_on_as_if_it_had_never_ended(self, runs, allennlp, tmp_path):
        folder = tmp_path / "run"
        shutil.copytree(runs / "2", folder)
        overrides = json.dumps(SHORT | {"trainer.num_epochs": 4, "trainer.patience": None})
        allennlp("train", NER, "-s", folder, "-o", overrides, "--recover")
        expected, found = (torch.load(each / "model_state_e4_b0.th") for each in (runs / "4", folder))
        assert all(
            torch.equal(found[name], weight) for name, weight in expected.items() if torch.is_tensor(weight)
        )
        metrics = [json.loads((each / "metrics.json").read_text()) for each in (runs / "4", folder)]
        assert metrics[0]["validation_loss"] == metrics[1]["validation_loss"]
        assert json.loads((folder / "config.json").read_text())["trainer"]["num_epochs"] == 4

    def test_a_run_that_stopped_early_goes_on_with_more_patience(self, allennlp, tmp_path):
        def epochs(patience: int, *more: str) -> int:
            # Nothing improves.
            overrides = {"trainer.optimizer.lr": 0.0, "trainer.num_epochs": 4, "trainer.patience": patience}
            arguments = ["-s", tmp_path / "run", "-o", json.dumps(SHORT | overrides), *more]
            allennlp("train", NER, *arguments)
            return len(list((tmp_path / "run").glob("metrics_epoch_*.json")))

        assert epochs(1) == 2
        assert epochs(2, "--recover") == 3

    def test_a_schedule_goes_on_as_that_of_the_longer_run(self, allennlp, tmp_path):
        for epochs, more in ((2, ()), (4, ("--recover",))):
            overrides = SHORT | {
                "trainer.learning_rate_scheduler": {"type": "elmo_linear_with_warmup", "warmup": 0.1},
                "trainer.num_epochs": epochs,
            }
            allennlp("train", NER, "-s", tmp_path / "run", "-o", json.dumps(overrides), *more)
        states = [torch.load(tmp_path / f"run/training_state_e{epoch}_b0.th") for epoch in (3, 4)]
        rates = [state["optimizer"]["param_groups"][0]["lr"] for state in states]
        assert rates[0] > rates[1] == 0


@pytest.mark.parametrize("left", ["nothing", "cut off", "a checkpoint"])
def test_several_processes_recover_before_their_first_checkpoint(tmp_path, monkeypatch, left):
    """The processes find the vocabulary of the data, or that of their checkpoint."""
    words = []

    def spawn(worker, *, args, nprocs):
        words.append((tmp_path / "vocabulary/tokens.txt").read_text())

    monkeypatch.setattr(train.mp, "spawn", spawn)
    monkeypatch.setattr(train, "archive_model", lambda *args, **more: None)
    overrides = json.dumps({"train_data_path": DEV, "distributed": {"cuda_devices": [-1, -1]}})
    config = Params.from_file(NER, overrides)
    train.train_model(config.duplicate(), tmp_path)
    if left == "nothing":
        shutil.rmtree(tmp_path / "vocabulary")
        with monkeypatch.context() as patch:
            stock = training_util.create_serialization_dir.__wrapped__
            patch.setattr(training_util, "create_serialization_dir", stock)
            with pytest.raises(FileNotFoundError):
                train.train_model(config.duplicate(), tmp_path, recover=True)
    else:
        (tmp_path / "vocabulary/tokens.txt").write_text("@@UNKNOWN@@\n")
    if left == "a checkpoint":
        (tmp_path / "training_state_e1_b0.th").touch()
    train.train_model(config.duplicate(), tmp_path, recover=True)
    assert words[0].count("\n") > 20
    assert words[1] == ("@@UNKNOWN@@\n" if left == "a checkpoint" else words[0])
