"""A wrong name, and the nearest right one."""

import argparse

import pytest
import torch
from allennlp.commands import ArgumentParserWithDefaults
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import prepare_environment
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.training import Trainer
from allennlp.training.metric_tracker import MetricTracker

from elmo_tasks.compat import config_errors as hints


@pytest.mark.parametrize(("value", "hint"), [("tran", "did you mean 'train'?\n"), ("xyz", "'predict')\n")])
def test_commands(value, hint, capsys):
    parser = ArgumentParserWithDefaults()
    commands = parser.add_subparsers()
    for name in ("train", "predict"):
        commands.add_parser(name)
    with pytest.raises(SystemExit):
        parser.parse_args([value])
    assert capsys.readouterr().err.endswith(hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "found no Jsonnet (STATIC ERROR: {path}:1:2: unexpected: end of file"),
        ('{"a": error "no"}', "found no Jsonnet (RUNTIME ERROR: no; {path}:1:"),
        ("[1, 2]", "found [ 1, 2 ], expected an object"),
    ],
)
def test_configs_and_overrides_that_are_none(tmp_path, text, message):
    path = tmp_path / "a.jsonnet"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        Params.from_file(path)
    assert str(caught.value).startswith(f"{path}: {message.replace('{path}', str(path))}")
    path.write_text("{}")
    with pytest.raises(ConfigurationError) as caught:
        Params.from_file(path, text)
    assert str(caught.value).startswith(f"the overrides {text!r}: found ")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ('{"modl.elmo.dropout": 1}', "unused keys: ['modl.elmo.dropout']; did you mean 'model'?"),
        ('{"model.drop.x": 1}', "unused keys: ['model.drop.x']; did you mean 'dropout'?"),
        ('{"model.dropout.x": 1}', "overrides for 'model.dropout.*' expected list or dict in original"),
    ],
)
def test_overrides_of_what_is_not_there(tmp_path, overrides, message):
    path = tmp_path / "a.jsonnet"
    path.write_text('{"model": {"dropout": 0.5}}')
    with pytest.raises(ConfigurationError) as caught:
        Params.from_file(path, overrides)
    assert message in str(caught.value)


def test_choices_that_are_right_pass():
    parser = ArgumentParserWithDefaults()
    parser.add_argument("--layers", choices=["top", "all"])
    assert parser.parse_args(["--layers", "top"]) == argparse.Namespace(layers="top")


def test_registered_names():
    with pytest.raises(ConfigurationError, match="did you mean 'elmo_ner'"):
        Model.by_name("elmo_nerr")
    with pytest.raises(ConfigurationError) as caught:
        DatasetReader.from_params(Params({"type": "elmo-nr"}, history="dataset_reader."))
    assert str(caught.value) == (
        "dataset_reader.type: found 'elmo-nr', which is no registered name; did you mean 'elmo_ner'?"
    )


def test_names_that_are_near_no_other():
    with pytest.raises(ConfigurationError, match="qqq not in acceptable choices for type"):
        DatasetReader.from_params(Params({"type": "qqq"}))


def test_keys_of_allennlps_own_blocks():
    with pytest.raises(ConfigurationError, match="Extra parameters passed to Vocabulary") as caught:
        Vocabulary.from_params(Params({"oov_tokn": "?", "qqq": 1}, history="vocabulary."), instances=[])
    assert caught.value.__notes__ == [
        "vocabulary.oov_tokn is no key of Vocabulary; did you mean 'oov_token'?"
    ]


def test_the_trainer_drops_no_key():
    with pytest.raises(
        ConfigurationError,
        match=r"^trainer.num_epoch is no key of GradientDescentTrainer; did you mean 'num_epochs'\?$",
    ):
        Trainer.from_params(Params({"num_epoch": 3}, history="trainer."), model=None, data_loader=None)


@pytest.mark.parametrize("metrics", ["f1", ["-loss", "f1"]])
def test_whether_more_of_a_metric_is_better(metrics):
    with pytest.raises(
        ConfigurationError,
        match=r"^trainer.validation_metric: found 'f1', expected '\+f1', where more is better, or '-f1'$",
    ):
        Trainer.from_params(
            Params({"validation_metric": metrics}, history="trainer."), model=None, data_loader=None
        )


def test_a_metric_that_the_model_does_not_have():
    tracker = MetricTracker(["+f1", "-perplexity"])
    with pytest.raises(
        ConfigurationError,
        match=r"^validation_metric: found 'perplexity', expected one of f1, loss, perplexty; did you mean",
    ):
        tracker.combined_score({"loss": 1.0, "f1": 0.5, "perplexty": 7.0})
    assert tracker.combined_score({"f1": 0.5, "perplexity": 7.0}) == -6.5


@pytest.mark.parametrize("seed", ["a", 1.5, -1, 2**32])
def test_what_is_no_seed(seed):
    with pytest.raises(ConfigurationError, match=r"^numpy_seed is .*, expected a whole number from 0 to 4,"):
        prepare_environment(Params({"random_seed": None, "numpy_seed": seed}))


def test_one_of_several_processes_cannot_evaluate(monkeypatch):
    monkeypatch.setattr(hints, "is_distributed", lambda: True)
    with pytest.raises(ConfigurationError, match=r"^evaluate_on_test: found true in a run of several"):
        TrainModel.from_params(
            Params({"evaluate_on_test": True, "test_data_path": "test.txt"}),
            serialization_dir="",
            local_rank=0,
        )


@pytest.mark.parametrize("test_data_path", [{}, {"test_data_path": None}, {"test_data_path": ""}])
def test_nothing_to_evaluate_on(test_data_path):
    with pytest.raises(ConfigurationError, match=r"^evaluate_on_test: found true without a test_data_path"):
        TrainModel.from_params(
            Params({"evaluate_on_test": True, **test_data_path}), serialization_dir="", local_rank=0
        )


def test_mixed_precision_needs_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigurationError, match=r"^trainer\.use_amp: found true, which needs a GPU"):
        Trainer.from_params(Params({"use_amp": True}, history="trainer."), model=None, data_loader=None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cuda_device", "cuda:0"),
        ("num_epochs", None),
        ("num_epochs", 0),
        ("num_gradient_accumulation_steps", 0),
        ("grad_norm", -1.0),
        ("grad_clipping", 0.0),
    ],
)
def test_the_trainer_takes_no_number_that_cannot_be(key, value):
    with pytest.raises(ConfigurationError, match=rf"^trainer\.{key} is {value!r}, expected "):
        Trainer.from_params(Params({key: value}, history="trainer."), model=None, data_loader=None)
