"""
How fast a biLM trains, and how long it still takes.

The perplexity of several texts, one by one, while a biLM is trained.
"""

import csv
import io
import logging
import math
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import torch
from allennlp.data import Batch, DatasetReader, TensorDict
from allennlp.models import Model
from allennlp.nn.util import move_to_device
from allennlp.training import GradientDescentTrainer, TrainerCallback
from tqdm import tqdm

from elmo_tasks.common.files import atomic_file
from elmo_tasks.common.progress import duration
from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Name, NonNegativeFloat, NotEmpty
from elmo_tasks.language_model.bptt_batch import tokens_trained
from elmo_tasks.language_model.metric import DIRECTIONS
from elmo_tasks.language_model.model import check_bilm

# ==== language_model.progress
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


# ==== language_model.text_perplexities
FILE_NAME = "perplexities.csv"
COLUMNS = ("epoch", "batches", "tokens", "seconds", "text", *DIRECTIONS)


@torch.no_grad()
def text_metrics(model: Model, reader: DatasetReader, text: str, device: torch.device) -> dict[str, float]:
    """The metrics of a biLM in evaluation mode on all of a text."""
    model.get_metrics(reset=True)
    for instance in reader.read(text):
        batch = Batch([instance])
        batch.index_instances(model.vocab)
        model(**move_to_device(batch.as_tensor_dict(), device))
    return model.get_metrics(reset=True)


@TrainerCallback.register("elmo_text_perplexities")
class TextPerplexities(StrictParams, TrainerCallback):
    """
    After each epoch a row for each text in `perplexities.csv`, in the run's folder: the epoch, the batches
    and the tokens that were read in training, the seconds since the run began (a resumed run goes on
    counting), the name of the text, and its perplexity in each direction.

    # Parameters

    texts : the path of each text, by a name for it.
    reader : how each text is read: in order, so that its perplexity is the same in each run.

    # Raises
    `ConfigurationError`, at the start: another model than `elmo_bilm`.
    """

    def __init__(
        self, serialization_dir: str, *, texts: Annotated[dict[str, Name], NotEmpty()], reader: DatasetReader
    ) -> None:
        super().__init__(serialization_dir)
        self._texts = texts
        self._reader = reader
        self._path = Path(serialization_dir, FILE_NAME)
        self._tokens = 0
        self._batches = 0
        self._seconds = 0.0
        self._started: float | None = None

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        check_bilm(trainer.model, "elmo_text_perplexities")
        self._started = time.monotonic()
        if not is_primary:
            return
        rows = []
        if self._path.exists():
            with open(self._path, encoding="utf-8", newline="") as file:
                # A kill may have cut the last one off.
                whole = [row for row in csv.DictReader(file) if all(row[column] for column in COLUMNS)]
            rows = [row for row in whole if int(row["batches"]) <= self._batches]
        with atomic_file(self._path) as file:
            file.write(_lines([dict(zip(COLUMNS, COLUMNS, strict=True)), *rows]))

    def on_batch(
        self,
        trainer: GradientDescentTrainer,
        batch_inputs: list[TensorDict],
        *args: Any,
        is_training: bool,
        **kwargs: Any,
    ) -> None:
        if is_training:
            self._batches += 1
            self._tokens += tokens_trained(batch_inputs, workers=trainer._world_size)

    def on_epoch(
        self, trainer: GradientDescentTrainer, *, epoch: int, is_primary: bool = True, **kwargs: Any
    ) -> None:
        progress: dict[str, Any] = {
            "epoch": epoch + 1,
            "batches": self._batches,
            "tokens": self._tokens,
            "seconds": round(self._elapsed()),
        }
        # Workers share a text
        rows = [progress | {"text": name} | self._perplexities(trainer, name) for name in self._texts]
        if is_primary:
            with open(self._path, "ab") as file:
                file.write(_lines(rows))

    def state_dict(self) -> dict[str, Any]:
        return {"tokens": self._tokens, "batches": self._batches, "seconds": self._elapsed()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._tokens, self._batches = state_dict["tokens"], state_dict["batches"]
        self._seconds = state_dict["seconds"]

    def _elapsed(self) -> float:
        return self._seconds + (0.0 if self._started is None else time.monotonic() - self._started)

    def _perplexities(self, trainer: GradientDescentTrainer, name: str) -> dict[str, str]:
        model = trainer.model.eval()
        metrics = text_metrics(model, self._reader, self._texts[name], trainer.cuda_device)
        model.train()
        logger.info("%s: perplexity %.2f", name, metrics["perplexity"])
        return {direction: f"{metrics[f'perplexity_{direction}']:.3f}" for direction in DIRECTIONS}


def _lines(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    csv.DictWriter(text, COLUMNS, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
