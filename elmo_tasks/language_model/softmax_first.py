"""A new softmax over a biLM that is trained already: it is trained first, alone."""

import logging
from typing import Any

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.training import GradientDescentTrainer, TrainerCallback

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import NonNegativeInt
from elmo_tasks.language_model.model import check_bilm

logger = logging.getLogger(__name__)


@TrainerCallback.register("elmo_softmax_first")
class SoftmaxFirst(StrictParams, TrainerCallback):
    """
    Trains the softmax of a biLM that came without one first: the biLM is frozen, and no graph is built
    through it, until the new softmax has been trained; a random one would spoil it. Does nothing where the
    softmax is not new.

    # Parameters

    epochs : so many, the first ones of the run, train the softmax alone; 0: none, with a warning.

    # Raises
    `ConfigurationError`: another model than `elmo_bilm`; in a distributed run that has to freeze, an
    accelerator that insists on gradients of all weights.
    """

    def __init__(self, *, serialization_dir: str, epochs: NonNegativeInt = 1) -> None:
        super().__init__(serialization_dir)
        self.epochs = epochs
        self._frozen: list[torch.nn.Parameter] = []

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        model = trainer.model
        check_bilm(model, "elmo_softmax_first")
        if not model.softmax_is_new:
            logger.info("The softmax is trained already: all weights are trained from the first epoch on.")
        elif not self.epochs:
            logger.warning(
                "The softmax is new and random, and trains the biLM from the first epoch on: expected "
                "epochs of elmo_softmax_first, which train it alone."
            )
        elif trainer._start_after_epochs_completed < self.epochs:
            if is_distributed() and not trainer._pytorch_model.find_unused_parameters:
                raise ConfigurationError(
                    "elmo_softmax_first: expected distributed.ddp_accelerator to be "
                    '{"type": "torch", "find_unused_parameters": true}'
                )
            logger.warning(
                "The softmax is new: epochs 0 to %d train it alone, the biLM is frozen.", self.epochs - 1
            )
            self._frozen = [weight for weight in model.bilm.parameters() if weight.requires_grad]
            self._set_trainable(False)

    def on_epoch(
        self, trainer: GradientDescentTrainer, metrics: dict[str, Any], epoch: int, **kwargs: Any
    ) -> None:
        if self._frozen and epoch + 1 >= self.epochs:
            logger.warning("From epoch %d on the biLM is trained, too.", epoch + 1)
            self._set_trainable(True)
            self._frozen = []

    def _set_trainable(self, trainable: bool) -> None:
        for weight in self._frozen:
            weight.requires_grad_(trainable)
