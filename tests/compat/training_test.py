"""`allennlp train`: wrong data and configs are found at the start, and a run goes on for more epochs."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from allennlp.commands import train
from allennlp.common import FromParams, Params
from allennlp.common.checks import ConfigurationError
from allennlp.data.data_loaders import SimpleDataLoader
from allennlp.training import GradientDescentTrainer, Trainer
from allennlp.training import util as training_util
from torch import nn

from elmo_tasks.archives import open_archive
from elmo_tasks.common.files import bundled
from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.compat import correctness
from elmo_tasks.compat.command import error_of_block
from elmo_tasks.ner.crf import Chain
from tests.conftest import command_process
from tests.errors import error_of, mentions
from tests.ner.archives import DEV

NER = str(bundled("training_configs/ner.jsonnet").resolve())
SHORT = {"train_data_path": DEV, "model.hidden_sizes": [8]}
"""Overrides that make a training short."""
TASKS = ("ner", "squad", "bilm")
WRONG = {"missing": None, "empty": b"", "Latin": b"caf\xe9 U-N O\n", "below": b"a b\n" * 999 + b"\xe9\n"}


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


def test_a_metric_that_the_model_will_not_have(tmp_path):
    """It is found before the first epoch; the metrics of a type are known after it."""

    def train_by(metric):
        overrides = SHORT | {"trainer.num_epochs": 1, "trainer.validation_metric": metric}
        train.train_model(config_of("ner", **overrides), tmp_path / "run", force=True)

    with pytest.raises(ConfigurationError, match=r"^trainer.validation_metric: 'f2-LOC'"):
        train_by("+f2-LOC")
    assert not list((tmp_path / "run").glob("metrics_epoch_*"))
    train_by("+f1-LOC")


WARMUP = {"type": "linear_with_warmup", "warmup_steps": 0.1}
MOMENTUM = {"type": "inverted_triangular", "cool_down": 1, "warm_up": 1}


@pytest.mark.parametrize(
    ("key", "block"),
    [
        ("trainer.learning_rate_scheduler", WARMUP),
        ("trainer.momentum_scheduler", MOMENTUM),
        ("trainer.optimizer", {"type": "adam", "lr": -1}),
        ("trainer", {"optimizer": "adam", "grad_norm": "5.0"}),
        ("data_loader", {"batch_size": 8, "max_instances_in_memory": 4}),
        ("data_loader", {"type": "multitask", "scheduler": {"batch_size": 4}}),
        ("data_loader.batch_sampler", None),
        ("vocabulary", {"type": "from_files"}),
    ],
)
def test_blocks_that_allennlp_cannot_build(in_command, tmp_path, key, block):
    if key == "vocabulary":
        block["directory"] = str(tmp_path / "words")
        (tmp_path / "words").mkdir()
        (tmp_path / "words" / "tokens.txt").write_text("EU\nrejects\n")
        (tmp_path / "words" / "non_padded_namespaces.txt").write_text("*tags\n*labels\n")
    with pytest.raises(Exception) as caught:  # noqa: PT011
        train.train_model(config_of("ner", **SHORT, **{key: block}), tmp_path / "run")
    assert error_of_block(caught.value).key == key.removesuffix(".batch_sampler")


def test_errors_of_data_and_of_models_keep_their_traceback(in_command):
    class Wrong(nn.Module, FromParams):
        def __init__(self, size: int) -> None:
            super().__init__()
            raise ValueError(size)

    with pytest.raises(ValueError, match="3") as caught:
        Wrong.from_params(Params({"size": 3}, "model."))
    assert error_of_block(caught.value) is caught.value


def test_a_training_that_diverges(tmp_path, monkeypatch):
    monkeypatch.setattr(Chain, "log_likelihood", lambda self, tags: torch.full((len(tags),), torch.nan))
    with pytest.raises(ConfigurationError, match="epoch 1, batch 1: "):
        train.train_model(config_of("ner", **SHORT), tmp_path)


@pytest.mark.parametrize("name", ["", "a.conll", "*.conll", "a.zip!a.conll"])
def test_force_keeps_what_the_run_reads(tmp_path, name):
    """Data in the folder is refused, and a folder without a run; `run2` is another folder than `run`."""
    run = tmp_path / "run"
    for folder in (run, tmp_path / "run2"):
        folder.mkdir()
        for file in ("a.conll", "a.zip"):
            (folder / file).touch()
    inside, beside = (Params({"train_data_path": f"{tmp_path}/{each}/{name}"}) for each in ("run", "run2"))
    with pytest.raises(ConfigurationError, match=r"^--force .* train_data_path "):
        training_util.create_serialization_dir(inside, run, recover=False, force=True)
    with pytest.raises(ConfigurationError, match="the folder has other files"):
        training_util.create_serialization_dir(beside, run, recover=False, force=True)
    assert (run / "a.conll").exists()
    (run / "config.json").touch()
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
    with pytest.raises(ConfigurationError, match=r"model\.text_field_embedder\._pretrained"):
        train_on()
    train_on(vocabulary={"type": "from_files", "directory": str(runs / "2/model.tar.gz")})
    given, taken = (open_archive(path / "model.tar.gz").model for path in (runs / "2", tmp_path / "run"))
    assert torch.equal(*(model.text_field_embedder.token_embedder_tokens.weight for model in (given, taken)))


class TestRecover:
    """`--recover` with another config."""

    @pytest.mark.parametrize(
        ("more", "keys"),
        [
            ({"trainer.grad_clipping": 2}, ["trainer.grad_clipping"]),
            ({"trainer.num_epochs": 1}, ["trainer.num_epochs"]),
            ({"trainer.patience": 3}, ["trainer.patience"]),
            ({"random_seed": 5, "model.dropout": 0.25}, ["model.dropout", "random_seed"]),
        ],
        ids=str,
    )
    def test_it_names_the_keys_that_differ(self, runs, more, keys):
        config = config_of("ner", **{**SHORT, "trainer.num_epochs": 2, "trainer.patience": None, **more})
        message = error_of(ConfigurationError, train.train_model, config, runs / "2", recover=True)
        assert mentions(message, "--recover", *keys)

    def test_a_finished_run_goes_on_as_if_it_had_never_ended(self, runs, allennlp, tmp_path):
        folder = tmp_path / "run"
        shutil.copytree(runs / "2", folder)
        overrides = json.dumps(SHORT | {"trainer.num_epochs": 4, "trainer.patience": None})
        assert "WARNING" not in allennlp("train", NER, "-s", folder, "-o", overrides, "--recover")
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


@pytest.mark.parametrize("data", [{"test_data_path": "a"}, {}, {"test_data_path": None}])
def test_no_evaluation_on_no_test_data_or_by_one_of_several_processes(tmp_path, monkeypatch, data):
    monkeypatch.setattr(correctness, "is_distributed", lambda: True)
    with pytest.raises(ConfigurationError, match=r"^evaluate_on_test: "):
        train.train_model(config_of("ner", **SHORT, evaluate_on_test=True, **data), tmp_path / "run")


def test_keys_of_the_trainer(tmp_path, caplog):
    """A misspelt key is an error, and another one a warning, such as one of AllenNLP 0.9."""
    make = partial(
        Trainer.from_params,
        model=nn.Linear(1, 1),
        data_loader=SimpleDataLoader([], batch_size=1),
        serialization_dir=str(tmp_path),
    )
    with pytest.raises(ConfigurationError, match=r"^trainer\.num_epoch: .*num_epochs"):
        make(Params({"num_epoch": 3}, history="trainer."))
    with pytest.raises(ConfigurationError, match=r"^trainer\.cuda_device: "):
        make(Params({"cuda_device": "gpu"}, history="trainer."))
    block = {"should_log_parameter_statistics": True, "cuda_device": "cpu", "grad_norm": None}
    assert make(Params(block, history="trainer.")).cuda_device == torch.device("cpu")
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "trainer.should_log_parameter_statistics"
    ]


@pytest.mark.parametrize(
    ("text", "overrides", "where", "names"),
    [
        ("{", "", "a.jsonnet", "a.jsonnet:2:1"),
        ('{"a": error "no"}', "", "a.jsonnet", "no"),
        ("{}", "{", "overrides", ""),
        ('{"model": {"dropout": 0.5}}', '{"modl.dropout": 1}', "a.jsonnet", "modl.dropout"),
    ],
)
def test_configs_and_overrides_that_are_wrong(tmp_path, text, overrides, where, names):
    path = tmp_path / "a.jsonnet"
    path.write_text(f"{text}\n")
    with command_process(), pytest.raises(ConfigError) as caught:
        Params.from_file(path, overrides)
    assert str(caught.value.where).endswith(where)
    assert names in str(caught.value)
    assert "\n" not in str(caught.value)
