import json
import logging
from types import SimpleNamespace

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training import TrainerCallback

from elmo_tasks.common.files import bundled
from elmo_tasks.language_model import SoftmaxFirst, softmax_first
from elmo_tasks.language_model.softmax import Softmax
from tests.elmo.files import read_bilm
from tests.language_model.archives import write_run

CONFIG = bundled("training_configs/bilm_finetune.jsonnet").resolve()


FIXTURE = read_bilm(bundled("fixtures/elmo/options.json"), bundled("fixtures/elmo/weights.hdf5"))


def test_config_trains_the_new_softmax_first(tmp_path, monkeypatch):
    """One epoch each; to the same weights if the run is killed in both of them, and resumed."""
    overrides = {"data_loader.batches_per_epoch": 3, "validation_data_loader.batches_per_epoch": 3}
    fixture = bundled("fixtures/elmo").resolve()
    config = tmp_path / "config.jsonnet"
    config.write_text(
        f"""(import '{CONFIG}') + {{
            options_file:: '{fixture}/options.json',
            weight_file:: '{fixture}/weights.hdf5',
            words_file:: null,
        }}"""
    )
    graphs = []
    stop = None
    loss = Softmax.loss

    def spy(self, vectors, *more):
        if len(graphs) == stop:
            raise KeyboardInterrupt
        graphs.append(vectors.requires_grad)
        return loss(self, vectors, *more)

    def train(name, **options):
        graphs.clear()
        params = Params.from_file(str(config), json.dumps(overrides))
        return train_model(params, str(tmp_path / name), **options)

    monkeypatch.setattr(Softmax, "loss", spy)
    model = train("run")
    assert graphs == [False] * 3 + [True] * 3
    log = (tmp_path / "run/out.log").read_text()
    for line in (
        "holds no softmax",
        "epochs 0 to 0 train it alone",
        "From epoch 1 on the biLM is trained, too",
    ):
        assert line in log
    after_first = torch.load(tmp_path / "run/model_state_e1_b0.th")
    for name, weight in FIXTURE.named_parameters():
        assert torch.equal(after_first[f"bilm.{name}"], weight)
        assert not torch.equal(model.bilm.get_parameter(name), weight)

    for stop, expected in [(2, [False] * 2), (4, [False] * 3 + [True])]:
        with pytest.raises(KeyboardInterrupt):
            train("killed", recover=stop > 2)
        assert graphs == expected
    stop = None
    resumed = train("killed", recover=True)
    assert graphs == [True] * 3
    for one, other in zip(model.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


class Run:
    """As much of a trainer as the callback meets."""

    def __init__(self, model, *, done=0, find_unused_parameters=False, **options):
        self.trainer = SimpleNamespace(
            model=model,
            _start_after_epochs_completed=done,
            _pytorch_model=SimpleNamespace(find_unused_parameters=find_unused_parameters),
        )
        self.callback = SoftmaxFirst(serialization_dir="folder", **options)
        self.callback.on_start(self.trainer)

    def trained(self) -> set[str]:
        """The names of the weights that are trained now."""
        return {name for name, weight in self.trainer.model.named_parameters() if weight.requires_grad}

    def finish(self, epoch: int) -> set[str]:
        self.callback.on_epoch(self.trainer, metrics={}, epoch=epoch, is_primary=True)
        return self.trained()


@pytest.fixture
def model(tmp_path):
    """Its softmax is new."""
    model = write_run(tmp_path / "run")
    model.softmax_is_new = True
    # What the user has frozen
    model.bilm.token_encoder.embedding.requires_grad_(False)
    return model


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_softmax_alone_then_all_that_was_trained_before(model, epochs, caplog):
    every = {name for name, weight in model.named_parameters() if weight.requires_grad}
    softmax = {name for name in every if name.startswith("softmax.")}
    run = Run(model, epochs=epochs)
    assert run.trained() == softmax
    assert f"epochs 0 to {epochs - 1} train it alone" in caplog.text
    assert run.finish(0) == (every if epochs == 1 else softmax)
    assert run.finish(1) == every
    assert caplog.text.count("the biLM is trained, too") == 1


@pytest.mark.parametrize(("is_new", "options"), [(False, {}), (True, {"epochs": 0}), (True, {"done": 1})])
def test_nothing_is_frozen(model, is_new, options, caplog):
    """Of a trained softmax, for no epoch, and in a run that is resumed behind them."""
    caplog.set_level(logging.INFO)
    model.softmax_is_new = is_new
    expected = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert Run(model, **options).trained() == expected
    assert ("The softmax is trained already" in caplog.text) == (not is_new)
    assert ("The softmax is new and random" in caplog.text) == ("epochs" in options)


def test_a_run_that_is_resumed_within_them(model):
    run = Run(model, epochs=2, done=1)
    assert all(name.startswith("softmax.") for name in run.trained())
    assert any(name.startswith("bilm.") for name in run.finish(1))


def test_gradients_that_an_accelerator_would_miss(model, monkeypatch):
    monkeypatch.setattr(softmax_first, "is_distributed", lambda: True)
    with pytest.raises(
        ConfigurationError, match=r'expected distributed\.ddp_accelerator to be \{"type": "to'
    ):
        Run(model)
    assert all(name.startswith("softmax.") for name in Run(model, find_unused_parameters=True).trained())


def test_impossible_settings():
    with pytest.raises(ConfigurationError, match=r"epochs is -1, expected a whole number from 0"):
        SoftmaxFirst(serialization_dir="folder", epochs=-1)
    with pytest.raises(ConfigurationError, match="found the model Linear, expected elmo_bilm"):
        Run(torch.nn.Linear(1, 1))
    with pytest.raises(ConfigurationError, match="did you mean 'epochs'"):
        TrainerCallback.from_params(
            Params({"type": "elmo_softmax_first", "epoch": 1}), serialization_dir="folder"
        )
