"""
Adam in one kernel.

A learning rate that rises for a share of the run.
"""

from typing import Any, Optional

import torch
from allennlp.training.learning_rate_schedulers import LearningRateScheduler, LinearWithWarmup
from allennlp.training.optimizers import Optimizer, make_parameter_groups

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Name, NonNegativeFloat, NonNegativeInt, PositiveInt, Probability


# ==== training.optimizer
@Optimizer.register("elmo_adam")
class FusedAdam(StrictParams, Optimizer, torch.optim.Adam):
    """
    Adam (Kingma and Ba 2015, arXiv:1412.6980) as AllenNLP's `adam`, with PyTorch's fused update: the same
    steps up to rounding, a few times faster, on CPU and GPU.
    """

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


# ==== training.warmup
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
