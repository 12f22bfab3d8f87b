"""Errors of configs and the command line name what is wrong, and the nearest right name."""

import argparse
import random
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
import torch
from allennlp.commands import ArgumentParserWithDefaults
from allennlp.commands.train import TrainModel
from allennlp.common import Params, from_params, params, registrable
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import prepare_environment
from allennlp.data import DataLoader, DatasetReader, Vocabulary
from allennlp.data.data_loaders import SimpleDataLoader
from allennlp.data.dataset_readers import Conll2003DatasetReader
from allennlp.models import Model
from allennlp.training import GradientDescentTrainer, Trainer
from allennlp.training.metric_tracker import MetricTracker
from torch import nn

from elmo_tasks.compat import config_errors
from tests.compat.repairs_test import stock


@pytest.mark.parametrize(("value", "hint"), [("tran", "did you mean 'train'?\n"), ("xyz", "'predict')\n")])
def test_commands(value, hint, capsys):
    parser = ArgumentParserWithDefaults()
    commands = parser.add_subparsers()
    for name in ("train", "predict"):
        commands.add_parser(name)
    with pytest.raises(SystemExit):
        parser.parse_args([value])
    assert capsys.readouterr().err.endswith(hint)


def test_gojsonnet_where_jsonnet_is_not_installed(monkeypatch, tmp_path):
    go = ModuleType("_gojsonnet")
    go.__spec__ = ModuleSpec("_gojsonnet", None)
    go.evaluate_file = lambda path, **options: '{"by": "go"}'
    go.evaluate_snippet = lambda path, text, **options: text
    for name in ("evaluate_file", "evaluate_snippet"):
        monkeypatch.setattr(params, name, getattr(params, name))
    monkeypatch.setitem(sys.modules, "_jsonnet", None)
    monkeypatch.setitem(sys.modules, "_gojsonnet", go)
    config_errors.install()
    (tmp_path / "a.jsonnet").touch()
    assert Params.from_file(tmp_path / "a.jsonnet").as_dict() == {"by": "go"}


def test_choices_that_are_right_pass():
    parser = ArgumentParserWithDefaults()
    parser.add_argument("--layers", choices=["top", "all"])
    assert parser.parse_args(["--layers", "top"]) == argparse.Namespace(layers="top")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "found no Jsonnet ("),
        ('{"a": error "no"}', "found no Jsonnet (RUNTIME ERROR: no; {path}:1:"),
        ("[1, 2]", "found [ 1, 2 ]"),
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
        ('{"model.dropout.x": 1}', "overrides for 'model.dropout.*'"),
    ],
)
def test_overrides_of_what_is_not_there(tmp_path, overrides, message):
    path = tmp_path / "a.jsonnet"
    path.write_text('{"model": {"dropout": 0.5}}')
    with pytest.raises(ConfigurationError) as caught:
        Params.from_file(path, overrides)
    assert message in str(caught.value)


def test_registered_names():
    with pytest.raises(ConfigurationError, match="did you mean 'elmo_ner'"):
        Model.by_name("elmo_nerr")
    with pytest.raises(ConfigurationError, match=r"^dataset_reader\.type: .*'elmo-nr'.*'elmo_ner'\?$"):
        DatasetReader.from_params(Params({"type": "elmo-nr"}, history="dataset_reader."))
    with pytest.raises(ConfigurationError, match="qqq not in acceptable"):
        DatasetReader.from_params(Params({"type": "qqq"}))


def test_keys_of_allennlps_own_blocks():
    with pytest.raises(ConfigurationError, match=r"Extra.*Vocabulary") as caught:
        Vocabulary.from_params(Params({"oov_tokn": "?", "qqq": 1}, history="vocabulary."), instances=[])
    assert caught.value.__notes__ == [
        "vocabulary.oov_tokn is no key of Vocabulary; did you mean 'oov_token'?"
    ]


def test_keys_of_earlier_versions(caplog):
    block = {"checkpointer": {"num_serialized_models_to_keep": 1}, "shuffle": False, "unheard_of": 1}
    loader = SimpleDataLoader([], batch_size=1)
    with pytest.raises(ConfigurationError, match=r"Extra.*Checkpointer") as caught:
        Trainer.from_params(
            Params(block, history="trainer."),
            model=nn.Linear(1, 1),
            data_loader=loader,
            serialization_dir="",
        )
    assert caught.value.__notes__ == [
        "trainer.checkpointer.num_serialized_models_to_keep is no key of Checkpointer; it is now "
        "keep_most_recent_by_count of the checkpointer"
    ]
    assert [record.message.split()[0] for record in caplog.records] == [
        "trainer.shuffle",
        "trainer.unheard_of",
    ]
    with pytest.raises(ConfigurationError) as caught:
        TrainModel.from_params(
            Params({"dataset_reader": "conll2003", "train_data_path": "", "model": {}, "iterator": "basic"}),
            serialization_dir="",
            local_rank=0,
        )
    assert caught.value.__notes__ == ["iterator is no key of TrainModel; it is now data_loader"]


@pytest.mark.parametrize(
    ("key", "hint"),
    [("lazy", "it is now max_instances_in_"), ("max_instance", "did you mean 'max_instances'")],
)
def test_keys_that_a_class_passes_on(key, hint):
    with pytest.raises(
        ConfigurationError, match=rf"^dataset_reader\.{key} is no key of Conll2003\w+; {hint}"
    ):
        DatasetReader.from_params(Params({"type": "conll2003", key: 1}, history="dataset_reader."))


@pytest.mark.parametrize("key", ["initializer", "regularizer"])
def test_a_list_of_regexes(key):
    block = {"type": "simple_tagger", key: [[".*", {"type": "l2"}]]}
    with pytest.raises(ConfigurationError, match=rf"^model\.{key}: found a list"):
        Model.from_params(Params(block, history="model."), vocab=Vocabulary())


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"num_epoch": 3}, r"num_epoch is .*'num_epochs'\?$"),
        *(
            ({"validation_metric": metrics}, r"validation_metric: found 'f1', expected '\+f1'.* or '-f1'$")
            for metrics in ("f1", ["-loss", "f1"])
        ),
        ({"use_amp": True}, "use_amp: found true"),
        ({"cuda_device": "gpu"}, "cuda_device is 'gpu', expected "),
        ({"cuda_device": [0, 1]}, r'cuda_device: found \[0, 1\], .* "distributed"'),
        ({"num_epochs": None}, "num_epochs is None, expected "),
        ({"num_epochs": 0}, "num_epochs is 0, expected "),
        ({"patience": "5"}, "patience is '5', expected "),
        ({"num_gradient_accumulation_steps": 0}, "num_gradient_accumulation_steps is 0, expected "),
        ({"grad_norm": -1.0}, "grad_norm is -1.0, expected "),
        ({"grad_clipping": 0.0}, "grad_clipping is 0.0, expected "),
    ],
)
def test_the_trainer_takes_only_what_it_can_use(block, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigurationError, match=rf"^trainer\.{message}"):
        Trainer.from_params(Params(block, history="trainer."), model=None, data_loader=None)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"batch_size": 8}, r"batch_size: found 8 .* data_loader\.batch_sampler\.batch_size$"),
        ({"shuffle": True}, "shuffle: found True "),
        ({"batches_per_epoch": 0}, "batches_per_epoch is 0, expected "),
        ({"num_workers": "2"}, "num_workers is '2', expected "),
    ],
)
def test_the_data_loader_takes_only_what_it_can_use(block, message):
    block = {"batch_sampler": {"type": "bucket", "batch_size": 4}} | block
    with pytest.raises(ConfigurationError, match=rf"^data_loader\.{message}"):
        DataLoader.from_params(Params(block, history="data_loader."), reader=None, data_path="")


def test_numbers_of_words_and_data_for_the_vocabulary():
    block = {"min_count": {"tokens": "2"}}
    with pytest.raises(ConfigurationError, match=r"^vocabulary\.min_count\.tokens is '2', expected "):
        Vocabulary.from_params(Params(block, history="vocabulary."), instances=[])
    block = {"datasets_for_vocab_creation": ["trian"]}
    message = r"^datasets_for_vocab_creation\.0 is 'trian', expected one of train, validation, test$"
    with pytest.raises(ConfigurationError, match=message):
        TrainModel.from_params(Params(block), serialization_dir="", local_rank=0)


def test_a_metric_that_the_model_does_not_have():
    tracker = MetricTracker(["+f1", "-perplexity"])
    names = r"expected one of f1, loss, perplexty; did you mean 'perplexty'\?$"
    with pytest.raises(ConfigurationError, match=rf"^validation_metric: .*'perplexity', {names}"):
        tracker.combined_score({"loss": 1.0, "f1": 0.5, "perplexty": 7.0})
    assert tracker.combined_score({"f1": 0.5, "perplexity": 7.0}) == -6.5


def test_a_seed_as_text():
    """As `std.extVar` of Jsonnet gives it."""
    drawn = []
    for seed in (13, "13"):
        prepare_environment(Params(dict.fromkeys(("random_seed", "numpy_seed", "pytorch_seed"), seed)))
        drawn.append(random.random())
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("seed", ["a", "-1", str(2**32), 1.5, -1, 2**32])
def test_what_is_no_seed(seed):
    with pytest.raises(ConfigurationError, match=r"^numpy_seed is "):
        prepare_environment(Params({"random_seed": None, "numpy_seed": seed}))


@pytest.mark.parametrize(
    "data", [{"test_data_path": "a"}, {}, {"test_data_path": None}, {"test_data_path": ""}]
)
def test_no_evaluation_on_no_test_data_or_by_one_of_several_processes(monkeypatch, data):
    monkeypatch.setattr(config_errors, "is_distributed", lambda: True)
    found = "true in a run of several" if data.get("test_data_path") else "true without a test_data_path"
    with pytest.raises(ConfigurationError, match=rf"^evaluate_on_test: .*{found}"):
        TrainModel.from_params(Params({"evaluate_on_test": True, **data}), serialization_dir="", local_rank=0)


def test_stock_says_less(tmp_path, capsys):
    """The same errors by AllenNLP's own functions: other types, and no hint."""
    path = tmp_path / "a.jsonnet"
    path.write_text("{")
    original = stock(params)
    with pytest.raises((RuntimeError, ValueError)):
        original.Params.from_file(path)
    with pytest.raises(ValueError, match="unused keys") as caught:
        original.with_overrides({"model": {}}, {"modl.x": 1})
    assert "did you mean" not in str(caught.value)
    assert stock(registrable)._get_suggestion("elmo-ner", ["elmo_ner_", "elmo_srl"]) is None
    with pytest.raises(ConfigurationError) as caught:
        Params.pop_choice.__wrapped__(Params({"type": "elmo-nr"}), "type", ["elmo_ner"])
    assert "did you mean" not in str(caught.value)
    create = from_params.create_kwargs.__wrapped__
    stock_from_params = from_params.FromParams.from_params.__func__.__wrapped__
    with pytest.raises(TypeError, match="'lazy'"):
        stock_from_params(Conll2003DatasetReader, Params({"lazy": True}))
    block = Params({"num_epoch": 3, "validation_metric": "f1"})
    with pytest.raises(ConfigurationError) as caught:
        create(GradientDescentTrainer.__init__, GradientDescentTrainer, block, model=None, data_loader=None)
    assert not hasattr(caught.value, "__notes__")
    with pytest.raises((ValueError, TypeError)):
        prepare_environment.__wrapped__(Params({"numpy_seed": -1}))
    with pytest.raises(ConfigurationError) as caught:
        MetricTracker.combined_score.__wrapped__(MetricTracker("+f1"), {"f": 1.0})
    assert "'f'" not in str(caught.value)
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", choices=["top", "all"])
    with pytest.raises(SystemExit):
        parser.parse_args(["--layers", "tpo"])
    assert "did you mean" not in capsys.readouterr().err
