"""How fast a biLM trains, and how long it still takes."""

import logging
import math
import sys
import time
from typing import Any

from allennlp.data import TensorDict
from allennlp.training import GradientDescentTrainer, TrainerCallback
from tqdm import tqdm

from elmo_tasks.language_model.bptt_batch import tokens_trained
from elmo_tasks.language_model.model import check_bilm
from elmo_tasks.strict_params import StrictParams
from elmo_tasks.values import NonNegativeFloat
from elmo_tasks.wording import duration

logger = logging.getLogger(__name__)


@TrainerCallback.register("elmo_progress")
class ProgressCallback(StrictParams, TrainerCallback):
    """
    Says now and then, for example, `epoch 3 of 24, 41%: 3,412 tokens/s, 1 h 12 min left`.

    Tokens are steps of a direction, those of all workers, a second of training in this epoch. The time left
    is that of the whole run, evaluation included, early stopping not; it is known where the data loader has
    a length, and otherwise after the first epoch.

    The speed of each epoch is also the metric `training_tokens_per_second`, for callbacks that come after
    this one and for `metrics.json`. No time counts before the first batch that is trained, nor that
    between epochs: a resumed run shows the speed of what it does itself.

    # Parameters

    every_seconds : from one line to the next.

    # Raises
    `ConfigurationError`, at the start: another model than `elmo_bilm`.
    """

    def __init__(self, serialization_dir: str, *, every_seconds: NonNegativeFloat = 30.0) -> None:
        super().__init__(serialization_dir)
        self._every_seconds = every_seconds
        self._batches_per_epoch = math.inf
        # Of the run and of the epoch: its first batch is where the clock starts.
        self._run_started: float | None = None
        self._batches = 0
        self._epoch_started: float | None = None
        self._epoch_seconds = 0.0
        self._tokens = 0
        self._said = 0.0

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        check_bilm(trainer.model, "elmo_progress")
        try:
            batches = len(trainer.data_loader)
        except TypeError:  # a lazy data loader
            return
        self._batches_per_epoch = math.ceil(batches / trainer._num_gradient_accumulation_steps)

    def on_batch(
        self,
        trainer: GradientDescentTrainer,
        batch_inputs: list[TensorDict],
        batch_outputs: list[dict[str, Any]],
        batch_metrics: dict[str, Any],
        epoch: int,
        batch_number: int,
        is_training: bool,
        is_primary: bool = True,
        **kwargs: Any,
    ) -> None:
        if not (is_training and is_primary):
            return
        now = time.monotonic()
        if self._run_started is None:
            self._run_started = self._said = now
        else:
            self._batches += 1
        if self._epoch_started is None:
            self._epoch_started, self._tokens = now, 0
        else:
            self._tokens += tokens_trained(batch_inputs, workers=trainer._world_size)
        self._epoch_seconds = now - self._epoch_started
        if self._epoch_seconds and now - self._said >= self._every_seconds:
            self._said = now
            _say(self._line(trainer._num_epochs, epoch, batch_number, now - self._run_started))

    def on_epoch(
        self, trainer: GradientDescentTrainer, metrics: dict[str, Any], epoch: int, **kwargs: Any
    ) -> None:
        if self._epoch_seconds:
            metrics["training_tokens_per_second"] = self._tokens / self._epoch_seconds
        self._batches_per_epoch = trainer._batches_in_epoch_completed
        self._epoch_started, self._epoch_seconds = None, 0.0

    def _line(self, epochs: int, epoch: int, batch_number: int, seconds: float) -> str:
        speed = f"{self._tokens / self._epoch_seconds:,.0f} tokens/s"
        place = f"epoch {epoch + 1} of {epochs}"
        if math.isinf(self._batches_per_epoch):
            return f"{place}, batch {batch_number:,}: {speed}"
        batches_left = max(0, (epochs - epoch) * self._batches_per_epoch - batch_number)
        left = duration(batches_left * seconds / self._batches)
        return f"{place}, {min(1.0, batch_number / self._batches_per_epoch):.0%}: {speed}, {left} left"


def _say(line: str) -> None:
    """Through the log, or above the progress bar where the log is silent."""
    if logger.isEnabledFor(logging.INFO):
        logger.info(line)
    else:
        tqdm.write(line, file=sys.stderr)
