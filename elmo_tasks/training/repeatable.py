"""Randomness that a resumed run repeats."""

import hashlib
from typing import Any

import torch
import torch.distributed as dist
from allennlp.common.util import is_distributed
from allennlp.training import GradientDescentTrainer, TrainerCallback


@TrainerCallback.register("elmo_repeatable")
class RepeatableCallback(TrainerCallback):
    """
    A run that was killed and resumed with `--recover` gives the same result as one that was not.

    AllenNLP repeats the order of the data, but not dropout: its checkpoints hold no state of PyTorch's
    random numbers. Here the generator of each batch is seeded from the run's seed, the epoch, the batch and
    the worker, so that nothing has to be saved, and checkpoints within an epoch and distributed runs
    resume as well.
    """

    def __init__(self, serialization_dir: str) -> None:
        super().__init__(serialization_dir)
        self._seed = 0
        self._resumed_at = (0, 0)
        self._position = (0, 0)

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        self._seed = torch.initial_seed()
        self._reseed(*self._resumed_at)

    def on_batch(
        self,
        trainer: GradientDescentTrainer,
        batch_inputs: Any,
        batch_outputs: Any,
        batch_metrics: Any,
        epoch: int,
        batch_number: int,
        is_training: bool,
        **kwargs: Any,
    ) -> None:
        if is_training:
            self._reseed(epoch, batch_number)

    def on_epoch(self, trainer: GradientDescentTrainer, metrics: Any, epoch: int, **kwargs: Any) -> None:
        self._reseed(epoch + 1, 0)

    def state_dict(self) -> dict[str, Any]:
        return {"seed": self._seed, "position": list(self._position)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._resumed_at = (state_dict["position"][0], state_dict["position"][1])

    def _reseed(self, epoch: int, batches: int) -> None:
        """For the batch that follows `batches` batches of `epoch`."""
        self._position = (epoch, batches)
        worker = dist.get_rank() if is_distributed() else 0
        key = f"{self._seed} {epoch} {batches} {worker}".encode()
        torch.manual_seed(int.from_bytes(hashlib.blake2b(key, digest_size=7).digest(), "big"))
