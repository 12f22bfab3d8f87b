"""The moving average of the weights: kept over a kill, and what is evaluated and archived."""

import json

import pytest
import torch
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.util import prepare_environment
from allennlp.training import TrainerCallback

from tests.squad.archives import DEV, config


class KilledError(Exception):
    pass


@TrainerCallback.register("kill_squad")
class Kill(TrainerCallback):
    """In the middle of the second epoch."""

    armed = True

    def on_batch(self, trainer, batch_inputs, batch_outputs, batch_metrics, epoch, batch_number, **kwargs):
        if Kill.armed and kwargs["is_training"] and (epoch, batch_number) == (1, 3):
            raise KilledError


def settings(*, killed: bool):
    found = config(dropout=0.2)
    del found["model"]["elmo"], found["dataset_reader"]["token_indexers"]["elmo"]
    found |= {"train_data_path": DEV, "validation_data_path": DEV}
    found["data_loader"]["batch_sampler"]["batch_size"] = 5
    found["trainer"] |= {"num_epochs": 2, "patience": None, "cuda_device": -1}
    found["trainer"]["moving_average"]["decay"] = 0.7
    found["trainer"]["checkpointer"] |= {"save_every_num_batches": 2, "keep_most_recent_by_count": None}
    found["trainer"]["callbacks"] = [{"type": "elmo_repeatable"}, *[{"type": "kill_squad"}] * killed]
    return Params(json.loads(json.dumps(found)))


def train(folder, *, killed: bool):
    params = settings(killed=killed)
    prepare_environment(params)
    return TrainModel.from_params(params=params, serialization_dir=str(folder), local_rank=0).run()


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_average(tmp_path, monkeypatch):
    expected = train(tmp_path / "whole", killed=False)
    with pytest.raises(KilledError):
        train(tmp_path / "resumed", killed=True)
    monkeypatch.setattr(Kill, "armed", False)
    found = train(tmp_path / "resumed", killed=True)
    for key, value in expected.items():
        if key.startswith(("best_", "validation_")):
            assert found[key] == value
    for name in ("best.th", "model_state_e2_b0.th"):
        whole, resumed = (torch.load(tmp_path / run / name) for run in ("whole", "resumed"))
        assert all(torch.equal(resumed[key], weight) for key, weight in whole.items()), name
    # The average is best, not the weights at that moment.
    epoch = expected["best_epoch"] + 1
    best = torch.load(tmp_path / "whole/best.th")
    state, weights = (
        torch.load(tmp_path / f"whole/{kind}_state_e{epoch}_b0.th") for kind in ("training", "model")
    )
    for name, average in state["moving_average"]["shadows"].items():
        assert torch.equal(best[name], average)
    assert not torch.equal(best["merge.weight"], weights["merge.weight"])
