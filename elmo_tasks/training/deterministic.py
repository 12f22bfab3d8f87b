"""Randomness that a resumed run repeats."""

import hashlib
import logging
import random
from collections.abc import Callable
from typing import Any, Optional

import torch
import torch.distributed as dist
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.data import DataLoader
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.training import GradientDescentTrainer, TrainerCallback

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.elmo import Elmo, LstmState
from elmo_tasks.training.samplers import ElmoBucketSampler

logger = logging.getLogger(__name__)


@TrainerCallback.register("elmo_repeatable")
class RepeatableCallback(StrictParams, TrainerCallback):
    """
    A run that was killed and resumed with `--recover` gives the same weights and validation metrics as one
    that was not. From a checkpoint within an epoch, AllenNLP counts the training metrics of that epoch over
    its later batches only, and divides their loss by the number of all.

    AllenNLP repeats the order of the data, but not dropout: its checkpoints hold no state of PyTorch's
    random numbers. Here the generator is seeded before each training batch from the run's seed, the epoch,
    the batch and the worker. So nothing has to be saved, other callbacks may draw as they like, and
    checkpoints within an epoch and distributed runs resume as well. The state that an `Elmo` with
    `stateful: true` carries from batch to batch goes into the checkpoint.

    A resumed run does not repeat past validations. So a validation leaves Python's random numbers as they
    were, and `shuffle` of its data loader, which goes on from the order of the last validation, is ignored.

    Where the kill came after the last epoch, AllenNLP returns the best metrics alone, and after early
    stopping it trains one more epoch. Here the run ends with the metrics of its last epoch.

    Several `num_workers` of a data loader bring instances in another order each time, so that a run with
    them is not repeated exactly; the log says so.

    # Raises
    `ConfigurationError`, when a run starts: its data loader has `max_instances_in_memory`, and its sampler
    must know all batches of each of several processes. When a run is resumed: its `Elmo` carries a state in
    each of several processes, and the checkpoint holds that of other ones.
    """

    def __init__(self, serialization_dir: str) -> None:
        super().__init__(serialization_dir)
        self._seed = 0
        self._epoch = 0
        self._batches = 0
        # Forward passes within the coming batch: several, with accumulated gradients
        self._forwards = 0
        self._carried: dict[str, list[torch.Tensor]] = {}
        self._metrics: dict[str, Any] = {}
        self._elmos: dict[str, Elmo] = {}
        self._saved_by: tuple[int, int] | None = None

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        for loader in (trainer.data_loader, trainer._validation_data_loader):
            _check_loader(loader)
        trainer._validation_loss = _without_draws(trainer._validation_loss)
        if isinstance(trainer._validation_data_loader, MultiProcessDataLoader):
            trainer._validation_data_loader.shuffle = False
        self._seed = torch.initial_seed()
        if trainer._metric_tracker.should_stop_early():
            trainer._num_epochs = trainer._start_after_epochs_completed
        # Otherwise kernels with more than one thread add up in another order from run to run.
        torch.use_deterministic_algorithms(True, warn_only=True)
        # Nothing here reads what it has not written.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        self._hook = trainer.model.register_forward_pre_hook(self._seed_batch)
        self._elmos = {
            name: module
            for name, module in trainer.model.named_modules()
            if isinstance(module, Elmo) and module.stateful
        }
        if self._carried and is_distributed() and self._saved_by != _process():
            raise ConfigurationError(
                "stateful: true carries a state in each process, and the checkpoint holds none of process "
                "{} of {}; expected as many processes as before, and the checkpointer elmo_safe".format(
                    *_process()
                )
            )
        for name, state in self._carried.items():
            self._elmos[name].carried.value = LstmState(
                *(part.to(self._elmos[name].start_hidden) for part in state)
            )

    def on_batch(
        self, trainer: GradientDescentTrainer, *batch: Any, is_training: bool, **kwargs: Any
    ) -> None:
        if is_training:
            *_, epoch, batch_number = batch
            self._epoch, self._batches, self._forwards = epoch, batch_number, 0

    def on_epoch(
        self, trainer: GradientDescentTrainer, metrics: dict[str, Any], epoch: int, **kwargs: Any
    ) -> None:
        self._epoch, self._batches, self._forwards = epoch + 1, 0, 0
        # AllenNLP keeps what an earlier epoch alone has, such as the score of a label once predicted.
        for name, value in self._metrics.items():
            metrics.setdefault(name, value)
        self._metrics = metrics

    def on_end(
        self,
        trainer: GradientDescentTrainer,
        metrics: Optional[dict[str, Any]] = None,
        *finish: Any,
        **kwargs: Any,
    ) -> None:
        # Without metrics the training was interrupted; without an epoch of its own, all were done before.
        if metrics is not None and "epoch" not in metrics:
            metrics.update(self._metrics)
        self._hook.remove()
        torch.use_deterministic_algorithms(False)

    def state_dict(self) -> dict[str, Any]:
        carried = {
            name: [part.cpu() for part in elmo.carried.value]
            for name, elmo in self._elmos.items()
            if elmo.carried.value is not None
        }
        return {
            "epoch": self._epoch,
            "batches": self._batches,
            "carried": carried,
            "metrics": dict(self._metrics),
            "process": _process(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._epoch, self._batches = state_dict["epoch"], state_dict["batches"]
        self._carried = state_dict.get("carried", {})
        self._metrics = state_dict.get("metrics", {})
        self._saved_by = state_dict.get("process")

    def _seed_batch(self, model: torch.nn.Module, inputs: object) -> None:
        if not model.training:
            return
        key = f"{self._seed} {self._epoch} {self._batches} {self._forwards} {_process()[0]}".encode()
        self._forwards += 1
        torch.manual_seed(int.from_bytes(hashlib.blake2b(key, digest_size=7).digest(), "big"))


def _without_draws(validate: Callable[[int], Any]) -> Callable[[int], Any]:
    def validate_apart(epoch: int) -> Any:
        before = random.getstate()
        try:
            return validate(epoch)
        finally:
            random.setstate(before)

    return validate_apart


def _check_loader(loader: DataLoader | None) -> None:
    if not isinstance(loader, MultiProcessDataLoader):
        return
    if loader.num_workers > 1:
        logger.warning(
            "data_loader.num_workers is %d: instances come in another order each time, so that the same seed "
            "gives another result; with 0 or 1 it gives the same",
            loader.num_workers,
        )
    if is_distributed() and isinstance(loader.batch_sampler, ElmoBucketSampler):
        if loader.max_instances_in_memory is not None:
            raise ConfigurationError(
                f"data_loader.max_instances_in_memory is {loader.max_instances_in_memory}, expected null: in "
                "several processes the batches of all instances are made together"
            )
        len(loader)  # of the validation, too, before the first epoch: see `ElmoBucketSampler`


def _process() -> tuple[int, int]:
    """The number of this process, and how many there are."""
    return (dist.get_rank(), dist.get_world_size()) if is_distributed() else (0, 1)
