"""The moving average of the weights: kept over a kill, and what is evaluated and archived."""

import json

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.training import TrainerCallback

from tests.squad.archives import DEV, config


class KilledError(Exception):
    pass


@TrainerCallback.register("kill_squad")
class Kill(TrainerCallback):
    """In the middle of the second epoch."""

    armed = True

    def on_batch(self, trainer, batch_inputs, batch_outputs, batch_metrics, epoch, batch_number, **kwargs):
        if Kill.armed and kwargs["is_training"] and (epoch, batch_number) == (1, 2):
            raise KilledError


def settings(*, killed: bool):
    found = config(dropout=0.2)
    found |= {"train_data_path": DEV, "validation_data_path": DEV}
    found["data_loader"]["batch_sampler"]["batch_size"] = 5
    found["trainer"] |= {"num_epochs": 3, "patience": None, "cuda_device": -1}
    found["trainer"]["moving_average"]["decay"] = 0.7
    found["trainer"]["checkpointer"] |= {"save_every_num_batches": 1, "keep_most_recent_by_count": None}
    found["trainer"]["callbacks"] = [{"type": "elmo_repeatable"}, *[{"type": "kill_squad"}] * killed]
    return Params(json.loads(json.dumps(found)))


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """The folders of a run that was killed and resumed, and of one that was not."""
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train_model(settings(killed=False), str(whole))
    with pytest.raises(KilledError):
        train_model(settings(killed=True), str(resumed))
    monkeypatch.setattr(Kill, "armed", False)
    train_model(settings(killed=True), str(resumed), recover=True)
    return whole, resumed


def test_a_killed_run_ends_with_the_same_average(runs):
    whole, resumed = ({name: torch.load(folder / name) for name in FILES} for folder in runs)
    for name in FILES:
        for key, value in flat(whole[name]).items():
            torch.testing.assert_close(flat(resumed[name])[key], value, rtol=0, atol=0, msg=f"{name} {key}")
    metrics = [json.loads((folder / "metrics.json").read_text()) for folder in runs]
    for name, value in metrics[0].items():
        if name.startswith(("best_", "validation_")):
            assert metrics[1][name] == value, name
    # What is best is the average, not the weights at that moment.
    best = metrics[0]["best_epoch"] + 1
    state = torch.load(runs[0] / f"training_state_e{best}_b0.th")
    weights = torch.load(runs[0] / f"model_state_e{best}_b0.th")
    for name, average in state["moving_average"]["shadows"].items():
        assert torch.equal(whole["best.th"][name], average)
    assert not torch.equal(whole["best.th"]["merge.weight"], weights["merge.weight"])


FILES = ("best.th", "model_state_e3_b0.th", "training_state_e3_b0.th")


def flat(content, prefix=""):
    """The tensors of nested dictionaries; of a training state those of the average."""
    content = content.get("moving_average", content) if not prefix else content
    found = {}
    for name, value in content.items():
        if isinstance(value, torch.Tensor):
            found[f"{prefix}{name}"] = value
        elif isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
    return found
