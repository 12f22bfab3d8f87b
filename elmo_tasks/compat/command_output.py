"""
The output of a command: one line on stderr and an exit code other than 0 for an error of the user; and, where
stderr is not a terminal, a few lines instead of progress bars, and one line for each epoch.
"""

import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from allennlp.common import logging as common_logging
from allennlp.common import tqdm as common_tqdm
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived
from allennlp.training import GradientDescentTrainer, TrainerCallback, gradient_descent_trainer

from elmo_tasks.common import progress
from elmo_tasks.common.errors import ElmoError, did_you_mean_path
from elmo_tasks.common.progress import duration
from elmo_tasks.compat.repairs import wrap

logger = logging.getLogger(__name__)

USER_ERRORS = (ConfigurationError, ElmoError, OSError, KeyboardInterrupt, SigTermReceived)
"""Errors in the user's input or machine, and signals: not faults of the program."""


def print_error(error: BaseException) -> None:
    """Prints one line, with the notes of the error, and logs the traceback at debug level."""
    logger.debug("the error in full", exc_info=error)
    print("; ".join([_message(error), *getattr(error, "__notes__", [])]), file=sys.stderr)
    if isinstance(error, OSError):
        # If stdout itself fails, Python would flush it once more when it ends.
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_code(error: BaseException) -> int:
    return 130 if isinstance(error, KeyboardInterrupt) else 143 if isinstance(error, SigTermReceived) else 1


def _message(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, SigTermReceived):
        return "terminated"
    if isinstance(error, OSError) and error.strerror and error.filename:
        hint = did_you_mean_path(error.filename) if isinstance(error, FileNotFoundError) else ""
        return f"error: {error.filename}: {error.strerror}{hint}"
    return f"error: {error}"


def _end_command(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if isinstance(error, SigTermReceived | KeyboardInterrupt):
        # Python would wait until the processes of a distributed training have trained to the end.
        for child in multiprocessing.active_children():
            child.terminate()
    if isinstance(error, USER_ERRORS):
        print_error(error)
    else:
        sys.__excepthook__(kind, error, traceback)
    if isinstance(error, SigTermReceived):
        # Otherwise Python would end with 1, as after an error.
        raise SystemExit(exit_code(error))


def is_command() -> bool:
    """Returns whether this process runs a command of AllenNLP."""
    program = Path(sys.argv[0] if sys.argv else "")
    return "allennlp" in (program.parent.name, program.stem)


def end_in_one_line() -> None:
    """Has a command of AllenNLP end an error of the user in one line, if this process runs a command."""
    if is_command():
        sys.excepthook = _end_command
        wrap(common_logging, "prepare_global_logging", _keep_user_errors)


def _keep_user_errors(prepare: Callable[..., None], *args: Any, **options: Any) -> None:
    """Ends user errors as `_end_command` does; `allennlp train` by itself logs every traceback."""
    prepare(*args, **options)
    log = sys.excepthook

    def end(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        (_end_command if isinstance(error, USER_ERRORS) else log)(kind, error, traceback)

    sys.excepthook = end


def write_lines_to_files() -> None:
    """Replaces AllenNLP's progress bars, and adds `EpochLines`."""
    common_tqdm.Tqdm.tqdm = staticmethod(_bar)
    callbacks = gradient_descent_trainer.DEFAULT_CALLBACKS
    if EpochLines not in callbacks:
        gradient_descent_trainer.DEFAULT_CALLBACKS = (*callbacks, EpochLines)


def _bar(*args: Any, **options: Any) -> Any:
    """Returns AllenNLP's bar of tqdm, or, in a file, a bar that writes lines now and then."""
    if common_logging.FILE_FRIENDLY_LOGGING:
        own = {"file": common_tqdm.TqdmToLogsWriter(), "mininterval": 2.0}
    else:
        own = progress.log_options() or {"file": common_tqdm.TqdmToLogsWriter()}
    return common_tqdm._tqdm(*args, **{**options, **own})


class EpochLines(TrainerCallback):
    """
    Prints a line after each epoch where stderr is a file, such as `epoch 3 of 40: training loss 22.07,
    validation f1 0.6521 (best 0.6733, epoch 2), 12 s; 7 min left`, with the time left for all epochs.
    """

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        self._epoch_started = time.monotonic()
        self._validated = False

    def on_batch(
        self, trainer: GradientDescentTrainer, *batch: Any, is_training: bool, **kwargs: Any
    ) -> None:
        self._validated = self._validated or not is_training

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
        validated, self._validated = self._validated, False
        if not (is_primary and progress.log_options()):
            return
        # Missing in a run that was resumed after the last batch of an epoch
        training = [f"training loss {metrics['training_loss']:.4g}"] if "training_loss" in metrics else []
        # After an epoch without a validation, as by `should_validate_callback`, the metrics are earlier ones.
        names = [name for _, name in trainer._metric_tracker.tracked_metrics if validated]
        validation = [f"validation {name} {metrics[f'validation_{name}']:.4f}" for name in names]
        if validation and metrics.get("best_epoch", epoch) != epoch:
            best = metrics[f"best_validation_{names[-1]}"]
            validation[-1] += f" (best {best:.4f}, epoch {metrics['best_epoch'] + 1})"
        current, last = epoch + 1, trainer._num_epochs
        took, left = duration(seconds), duration(seconds * (last - current))
        print(
            f"epoch {current} of {last}: {', '.join([*training, *validation, took])}; {left} left",
            file=sys.stderr,
        )
