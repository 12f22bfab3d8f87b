import json

import pytest
import torch
from allennlp.common import Params
from allennlp.training.learning_rate_schedulers import LearningRateScheduler
from allennlp.training.optimizers import Optimizer

from elmo_tasks.common.files import bundled


def trained(kind: str, **options) -> torch.Tensor:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(5, 4))
    params = Params({"type": kind, "lr": 0.1, **options})
    optimizer = Optimizer.from_params(params, model_parameters=[("weight", weight)])
    for step in range(5):
        optimizer.zero_grad()
        (weight.sin().sum() * (step + 1)).backward()
        optimizer.step()
    return weight.detach()


@pytest.mark.parametrize("options", [{}, {"amsgrad": True}])
def test_same_steps_as_allennlps_adam(options):
    torch.testing.assert_close(trained("elmo_adam", **options), trained("adam", **options))


def scheduler(steps: int | None, **overrides):
    """Returns the scheduler of `bilm.jsonnet`, as the trainer makes it."""
    config = str(bundled("training_configs/bilm.jsonnet"))
    trainer = Params.from_file(config, json.dumps(overrides))["trainer"]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    return LearningRateScheduler.from_params(
        trainer["learning_rate_scheduler"],
        optimizer=optimizer,
        num_epochs=trainer["num_epochs"],
        num_steps_per_epoch=steps,
    )


@pytest.mark.parametrize(("epochs", "steps"), [(10, 10), (40, 10), (2, 100)])
def test_the_warm_up_follows_the_epochs_that_are_trained(epochs, steps):
    made = scheduler(steps, **{"trainer.num_epochs": epochs})
    rates = []
    for _ in range(epochs * steps):
        rates.append(made.get_values()[0])
        made.step_batch()
    warmup = epochs * steps // 20
    assert rates.index(2.0) == warmup == rates.index(max(rates))
    assert rates[warmup // 2] == pytest.approx(2.0 * (warmup // 2) / warmup)
    assert made.get_values() == [0.0]
