"""Adam in one kernel, and a learning rate that rises for a share of the run."""

from typing import Any, Optional

import torch
from allennlp.training.learning_rate_schedulers import LearningRateScheduler, LinearWithWarmup
from allennlp.training.optimizers import Optimizer, make_parameter_groups

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Name, NonNegativeFloat, NonNegativeInt, PositiveInt, Probability


@Optimizer.register("elmo_adam")
class FusedAdam(StrictParams, Optimizer, torch.optim.Adam):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980), fused: AllenNLP's up to rounding, and faster."""

    def __init__(
        self,
        model_parameters: list[tuple[str, torch.nn.Parameter]],
        parameter_groups: Optional[list[tuple[list[Name], dict[str, Any]]]] = None,
        lr: NonNegativeFloat = 0.001,
        betas: tuple[Probability, Probability] = (0.9, 0.999),
        eps: NonNegativeFloat = 1e-8,
        weight_decay: NonNegativeFloat = 0.0,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(
            params=make_parameter_groups(model_parameters, parameter_groups),
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            fused=True,
        )


@LearningRateScheduler.register("elmo_linear_with_warmup")
class LinearWithWarmupShare(StrictParams, LinearWithWarmup):
    """
    AllenNLP's `linear_with_warmup`, with a warm-up that is a fixed share of the run, whatever the number of
    epochs and batches.

    # Parameters

    optimizer, num_epochs, num_steps_per_epoch : come from the trainer, not from a config. The data loader has
        to know the number of its batches.
    warmup : share of all updates in which the rate rises to the optimizer's; then it falls to zero.
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
