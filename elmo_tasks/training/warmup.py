"""A learning rate that rises for a share of the run."""

from typing import Optional

import torch
from allennlp.training.learning_rate_schedulers import LearningRateScheduler, LinearWithWarmup

from elmo_tasks.strict_params import StrictParams
from elmo_tasks.values import NonNegativeInt, PositiveInt, Probability


@LearningRateScheduler.register("elmo_linear_with_warmup")
class LinearWithWarmupShare(StrictParams, LinearWithWarmup):
    """
    AllenNLP's `linear_with_warmup`, with a warm-up that is the same part of the run however many epochs and
    batches it has, also where these are overridden.

    # Parameters

    optimizer, num_epochs, num_steps_per_epoch : those of the trainer; not in a config.
    warmup : share of all updates in which the rate rises to the optimizer's; in the others it falls to zero.

    # Raises
    `ConfigurationError`: a data loader that does not know how many batches it has.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        num_epochs: PositiveInt,
        num_steps_per_epoch: Optional[NonNegativeInt],
        warmup: Probability,
    ) -> None:
        steps = round(warmup * num_epochs * (num_steps_per_epoch or 0))
        super().__init__(optimizer, num_epochs, num_steps_per_epoch, warmup_steps=steps)
