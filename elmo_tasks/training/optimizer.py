"""Adam in one kernel."""

from typing import Any, Optional

import torch
from allennlp.training.optimizers import Optimizer, make_parameter_groups

from elmo_tasks.strict_params import StrictParams
from elmo_tasks.values import Name, NonNegativeFloat, Probability


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
