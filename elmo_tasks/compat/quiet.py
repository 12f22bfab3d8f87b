"""AllenNLP's output where stderr is no terminal: a few lines instead of bars, and one line for each epoch."""

import sys
import time
from typing import Any

from allennlp.common import logging as common_logging
from allennlp.common import tqdm as common_tqdm
from allennlp.training import GradientDescentTrainer, TrainerCallback, gradient_descent_trainer

from elmo_tasks.common import progress
from elmo_tasks.common.progress import duration


def install() -> None:
    """
    Replaces the progress bars of AllenNLP, and adds `EpochLines` to its trainers; it may be called
    twice.
    """
    common_tqdm.Tqdm.tqdm = staticmethod(_bar)
    callbacks = gradient_descent_trainer.DEFAULT_CALLBACKS
    if EpochLines not in callbacks:
        gradient_descent_trainer.DEFAULT_CALLBACKS = (*callbacks, EpochLines)


def _bar(*args: Any, **options: Any) -> Any:
    """Returns AllenNLP's bar of tqdm, or, in a file, a bar that writes lines now and then."""
    if common_logging.FILE_FRIENDLY_LOGGING:
        own = {"file": common_tqdm.TqdmToLogsWriter(), "mininterval": 2.0}
    else:
        own = progress.in_file() or {"file": common_tqdm.TqdmToLogsWriter()}
    return common_tqdm._tqdm(*args, **{**options, **own})


class EpochLines(TrainerCallback):
    """
    Prints after each epoch, where stderr is no terminal, for example `epoch 3 of 40: training loss 22.07,
    validation f1 0.6521 (best 0.6733, epoch 2), 12 s; 7 min left`. The time left is that of all epochs.
    """

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        self._epoch_started = time.monotonic()

    def on_epoch(
        self,
        trainer: GradientDescentTrainer,
        metrics: dict[str, Any],
        epoch: int,
        is_primary: bool = True,
        **kwargs: Any,
    ) -> None:
        seconds = time.monotonic() - self._epoch_started
        self._epoch_started = time.monotonic()
        if not (is_primary and progress.in_file()):
            return
        # There is none in a run that was resumed after the last batch of an epoch.
        training = [f"training loss {metrics['training_loss']:.4g}"] if "training_loss" in metrics else []
        names = [
            name for _, name in trainer._metric_tracker.tracked_metrics if f"validation_{name}" in metrics
        ]
        validation = [f"validation {name} {metrics[f'validation_{name}']:.4f}" for name in names]
        if validation and metrics.get("best_epoch", epoch) != epoch:
            best = metrics[f"best_validation_{names[-1]}"]
            validation[-1] += f" (best {best:.4f}, epoch {metrics['best_epoch'] + 1})"
        number, last = epoch + 1, trainer._num_epochs
        took, left = duration(seconds), duration(seconds * (last - number))
        print(
            f"epoch {number} of {last}: {', '.join([*training, *validation, took])}; {left} left",
            file=sys.stderr,
        )
