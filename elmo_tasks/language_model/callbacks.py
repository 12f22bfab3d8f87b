"""Callbacks of biLM training: its speed, the perplexity of several texts, and a softmax trained first."""

import logging
import math
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, DatasetReader, TensorDict
from allennlp.models import Model
from allennlp.nn.util import move_to_device
from allennlp.training import GradientDescentTrainer, TrainerCallback
from tqdm import tqdm

from elmo_tasks.common.files import atomic_file
from elmo_tasks.common.progress import duration
from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.table import Cell, Table
from elmo_tasks.common.values import Name, NonNegativeFloat, NonNegativeInt, NotEmpty
from elmo_tasks.data.reader import check_readable
from elmo_tasks.elmo.model.characters import BEGIN_SENTENCE
from elmo_tasks.language_model.bptt_batch import NAMESPACE, tokens_trained
from elmo_tasks.language_model.metric import DIRECTIONS
from elmo_tasks.language_model.model import BiLmModel
from elmo_tasks.language_model.reader import BiLmReader

logger = logging.getLogger(__name__)

FILE_NAME = "perplexities.csv"
CSV_COLUMNS = ("epoch", "batches", "tokens", "seconds", "text", *DIRECTIONS)


@TrainerCallback.register("elmo_progress")
class ProgressCallback(StrictParams, TrainerCallback):
    """
    Reports the progress of an `elmo_bilm`, for example `epoch 3 of 24, 41%: 3,412 tokens/s, 1 h 12 min left`.

    The speed counts the steps of one direction in this epoch's training, summed over all workers; it is also
    the metric `training_tokens_per_second`. The time left includes evaluations, and ignores early stopping.
    It is known if the data loader has a length, and otherwise after the first epoch. A resumed run reports
    its own speed.

    If the data loader has `batches_per_epoch` and the words were counted, the first line says how much of the
    text the run will read.

    # Parameters

    every_seconds : the time between two reports.
    """

    def __init__(self, serialization_dir: str, *, every_seconds: NonNegativeFloat = 30.0) -> None:
        super().__init__(serialization_dir)
        self._every_seconds = every_seconds
        self._batches_per_epoch = math.inf
        # The clocks of the run and of the epoch start at the first batch.
        self._run_started: float | None = None
        self._batches = 0
        self._epoch_started: float | None = None
        self._epoch_seconds = 0.0
        self._tokens = 0
        self._last_report = 0.0

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: object) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        _check_model(trainer.model, "elmo_progress")
        if is_primary:
            _log_share_of_text(trainer)
        try:
            batches = len(trainer.data_loader)
        except TypeError:  # a lazy data loader
            return
        self._batches_per_epoch = math.ceil(batches / trainer._num_gradient_accumulation_steps)

    def on_batch(
        self,
        trainer: GradientDescentTrainer,
        batch_inputs: list[TensorDict],
        batch_outputs: object,
        batch_metrics: object,
        epoch: int,
        batch_number: int,
        is_training: bool,
        is_primary: bool = True,
        **kwargs: object,
    ) -> None:
        if not (is_training and is_primary):
            return
        now = time.monotonic()
        if self._run_started is None:
            self._run_started = self._last_report = now
        else:
            self._batches += 1
        if self._epoch_started is None:
            self._epoch_started, self._tokens = now, 0
        else:
            self._tokens += tokens_trained(batch_inputs, workers=trainer._world_size)
        self._epoch_seconds = now - self._epoch_started
        if self._epoch_seconds and now - self._last_report >= self._every_seconds:
            self._last_report = now
            line = self._line(trainer._num_epochs, epoch, batch_number, now - self._run_started)
            if logger.isEnabledFor(logging.INFO):
                logger.info(line)
            else:  # above the progress bar, where the log is silent
                tqdm.write(line, file=sys.stderr)

    def on_epoch(
        self, trainer: GradientDescentTrainer, metrics: dict[str, object], epoch: int, **kwargs: object
    ) -> None:
        if self._epoch_seconds:
            metrics["training_tokens_per_second"] = self._tokens / self._epoch_seconds
        self._batches_per_epoch = trainer._batches_in_epoch_completed
        self._epoch_started, self._epoch_seconds = None, 0.0

    def _line(self, epochs: int, epoch: int, batch_number: int, seconds: float) -> str:
        speed = f"{self._tokens / self._epoch_seconds:,.0f} tokens/s"
        position = f"epoch {epoch + 1} of {epochs}"
        if math.isinf(self._batches_per_epoch):
            return f"{position}, batch {batch_number:,}: {speed}"
        batches_left = max(0, (epochs - epoch) * self._batches_per_epoch - batch_number)
        time_left = duration(batches_left * seconds / self._batches)
        share = min(1.0, batch_number / self._batches_per_epoch)
        return f"{position}, {share:.0%}: {speed}, {time_left} left"


def _log_share_of_text(trainer: GradientDescentTrainer) -> None:
    """Warns of a run that reads only a part of its text."""
    reader = getattr(trainer.data_loader, "reader", None)
    batches = getattr(trainer.data_loader, "batches_per_epoch", None)
    counts = (trainer.model.vocab._retained_counter or {}).get(NAMESPACE) if batches else None
    if not counts or not isinstance(reader, BiLmReader) or reader.bptt_steps is None:
        return
    tokens_of_block = trainer._world_size * reader.streams * reader.bptt_steps
    blocks = trainer._num_epochs * batches
    # The begin of a sentence does not count as a step.
    share = blocks * tokens_of_block / (sum(counts.values()) - counts[BEGIN_SENTENCE])
    logger.log(
        logging.INFO if share >= 1 else logging.WARNING,
        "The run reads %s tokens at most, %.3g%% of the text: %d epochs of %d blocks (epoch_blocks, "
        "data_loader.batches_per_epoch), where %d blocks are all of it.",
        f"{blocks * tokens_of_block:,}",
        100 * share,
        trainer._num_epochs,
        batches,
        math.ceil(blocks / share),
    )


@torch.no_grad()
def text_metrics(model: Model, reader: DatasetReader, text: str, device: torch.device) -> dict[str, float]:
    model.get_metrics(reset=True)
    for instance in reader.read(text):
        batch = Batch([instance])
        batch.index_instances(model.vocab)
        model(**move_to_device(batch.as_tensor_dict(), device))
    return model.get_metrics(reset=True)


@TrainerCallback.register("elmo_text_perplexities")
class TextPerplexities(StrictParams, TrainerCallback):
    """
    Writes the perplexity of each text for an `elmo_bilm` to `perplexities.csv` in the run's folder, after
    each epoch. The texts must be readable when the run starts.

    A row has the epoch, the batches and the tokens read in training, the seconds since the run began (a
    resumed run continues the count), the name of the text, and its perplexity in each direction.

    # Parameters

    texts : the path of each text, by its name in the file.
    reader : reads each text; in order, so that perplexities can be compared.
    """

    def __init__(
        self, serialization_dir: str, *, texts: Annotated[dict[str, Name], NotEmpty()], reader: DatasetReader
    ) -> None:
        super().__init__(serialization_dir)
        self._texts = texts
        self._reader = reader
        self._path = Path(serialization_dir, FILE_NAME)
        self._table = Table(CSV_COLUMNS)
        self._tokens = 0
        self._batches = 0
        self._seconds = 0.0
        self._started: float | None = None

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: object) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        _check_model(trainer.model, "elmo_text_perplexities")
        self._started = time.monotonic()
        if not is_primary:
            return
        for text in self._texts.values():
            check_readable(self._reader, text)
        if self._path.exists():
            rows = Table.read(self._path).rows
            self._table.rows.extend(row for row in rows if int(row[1] or 0) <= self._batches)
        self._write()

    def on_batch(
        self,
        trainer: GradientDescentTrainer,
        batch_inputs: list[TensorDict],
        *args: object,
        is_training: bool,
        **kwargs: object,
    ) -> None:
        if is_training:
            self._batches += 1
            self._tokens += tokens_trained(batch_inputs, workers=trainer._world_size)

    def on_epoch(
        self, trainer: GradientDescentTrainer, *, epoch: int, is_primary: bool = True, **kwargs: object
    ) -> None:
        progress = epoch + 1, self._batches, self._tokens, round(self._elapsed())
        rows: list[tuple[Cell, ...]] = []
        model = trainer.model.eval()
        for name, text in self._texts.items():
            # All workers evaluate, each its share of a text.
            metrics = text_metrics(model, self._reader, text, trainer.cuda_device)
            logger.info("%s: perplexity %.2f", name, metrics["perplexity"])
            rows.append(
                (*progress, name, *(f"{metrics[f'perplexity_{direction}']:.3f}" for direction in DIRECTIONS))
            )
        model.train()
        if is_primary:
            self._table.rows.extend(rows)
            self._write()

    def state_dict(self) -> dict[str, Any]:
        return {"tokens": self._tokens, "batches": self._batches, "seconds": self._elapsed()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._tokens, self._batches = state_dict["tokens"], state_dict["batches"]
        self._seconds = state_dict["seconds"]

    def _write(self) -> None:
        with atomic_file(self._path) as file:
            file.write(self._table.csv().encode())

    def _elapsed(self) -> float:
        return self._seconds + (0.0 if self._started is None else time.monotonic() - self._started)


@TrainerCallback.register("elmo_softmax_first")
class SoftmaxFirst(StrictParams, TrainerCallback):
    """
    Freezes the biLM of an `elmo_bilm` that came without a softmax until its new softmax has been trained,
    since gradients from a random softmax would spoil it. A softmax that came with the weights is left alone.
    A distributed run needs `distributed.ddp_accelerator: {"type": "torch", "find_unused_parameters": true}`.

    # Parameters

    epochs : the number of epochs, from the first one, that train the softmax alone; 0 trains everything from
        the start, with a warning.
    """

    def __init__(self, *, serialization_dir: str, epochs: NonNegativeInt = 1) -> None:
        super().__init__(serialization_dir)
        self.epochs = epochs
        self._frozen: list[torch.nn.Parameter] = []

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: object) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        model = trainer.model
        _check_model(model, "elmo_softmax_first")
        if not model.softmax_is_new:
            logger.info("The softmax is not new: all weights are trained from the first epoch on.")
        elif not self.epochs:
            logger.warning(
                "The softmax is new and random, and its gradients will spoil the biLM: set the epochs of "
                "elmo_softmax_first to 1 or more, which train the softmax alone."
            )
        elif trainer._start_after_epochs_completed < self.epochs:
            logger.warning(
                "The softmax is new: epochs 0 to %d train it alone, and the biLM is frozen.", self.epochs - 1
            )
            self._frozen = [weight for weight in model.bilm.parameters() if weight.requires_grad]
            self._set_trainable(False)

    def on_epoch(
        self, trainer: GradientDescentTrainer, metrics: dict[str, object], epoch: int, **kwargs: object
    ) -> None:
        if self._frozen and epoch + 1 >= self.epochs:
            logger.warning("The biLM is trained too, from epoch %d on.", epoch + 1)
            self._set_trainable(True)
            self._frozen = []

    def _set_trainable(self, trainable: bool) -> None:
        for weight in self._frozen:
            weight.requires_grad_(trainable)


def _check_model(model: Model, callback: str) -> None:
    if not isinstance(model, BiLmModel):
        raise ConfigurationError(f"{callback} is for elmo_bilm, not for a {type(model).__name__}")
