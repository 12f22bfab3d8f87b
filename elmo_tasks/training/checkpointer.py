"""Checkpoints that survive a kill at any moment, also while they are written."""

import logging
import os
import zipfile
from pathlib import Path
from typing import Any, ClassVar, Optional

import torch
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.trainer import Trainer, TrainerCheckpoint

from elmo_tasks.atomic_files import atomic_file
from elmo_tasks.strict_params import StrictParams
from elmo_tasks.values import Count, Number, Positive

logger = logging.getLogger(__name__)


@Checkpointer.register("elmo_safe")
class SafeCheckpointer(StrictParams, Checkpointer):
    """
    AllenNLP's checkpointer, for runs that may be killed, and disks that may be full: a file gets its name
    when it is whole, a checkpoint is used only if both of its files are, and the best weights are put in
    order if the kill came between them and their checkpoint.

    Its parameters are those of AllenNLP's `Checkpointer`.
    """

    inherited_values: ClassVar[dict[str, Any]] = {
        "save_every_num_seconds": Optional[Positive],
        "save_every_num_batches": Optional[Number],
        "keep_most_recent_by_count": Optional[Count],
        "keep_most_recent_by_age": Optional[Count],
    }

    def save_checkpoint(self, trainer: Trainer) -> None:
        """
        Removes what is left of unfinished checkpoints, since AllenNLP writes no file whose name is taken, and
        writes the new one.

        # Raises
        `OSError`, with the file: it cannot be written. Those before it are still there.
        """
        if self._is_primary:
            for checkpoint in self._find_all_checkpoints():
                if not all(map(_is_whole, self._paths(checkpoint))):
                    logger.warning("removing an unfinished checkpoint: %s", self._paths(checkpoint))
                    self._remove_checkpoint(*checkpoint)
            if (state := trainer.get_checkpoint_state()) is not None:
                done = state.trainer_state
                paths = self._paths((done["epochs_completed"], done["batches_in_epoch_completed"]))
                for part, path in zip((state.model_state, state.trainer_state), paths, strict=True):
                    if not os.path.isfile(path):
                        _save(part, path)
        # It finds the files written, and removes the oldest ones.
        super().save_checkpoint(trainer)

    def find_latest_checkpoint(self) -> Optional[tuple[str, str]]:
        """The newest checkpoint whose files are both whole; the ones passed over are logged."""
        for checkpoint in sorted(self._find_all_checkpoints(), reverse=True):
            paths = self._paths(checkpoint)
            if all(map(_is_whole, paths)):
                return paths
            logger.warning("passing over an unfinished checkpoint: %s", ", ".join(paths))
        return None

    def load_checkpoint(self) -> Optional[TrainerCheckpoint]:
        checkpoint = super().load_checkpoint()
        if checkpoint is not None:
            self._restore_best(checkpoint)
        return checkpoint

    def _paths(self, checkpoint: tuple[int, int]) -> tuple[str, str]:
        return self._model_state_path(*checkpoint), self._training_state_path(*checkpoint)

    def _restore_best(self, checkpoint: TrainerCheckpoint) -> None:
        """
        The trainer writes `best.th` after the checkpoint of the best epoch. Where the kill came between the
        two, `best.th` is missing, cut off or of an older epoch, and the state does not know of it.
        """
        state: dict[str, Any] = checkpoint.trainer_state
        tracker = state["metric_tracker"]
        end_of_epoch = state["batches_in_epoch_completed"] == 0
        if not (end_of_epoch and tracker["best_so_far"] is not None and tracker["is_best_so_far"]):
            return
        best = Path(self._serialization_dir) / "best.th"
        # With a moving average, its weights are what was evaluated.
        averages = state.get("moving_average", {"shadows": {}})["shadows"]
        if self._is_primary:
            _save({**checkpoint.model_state, **averages}, best)
        state["best_model_filename"] = str(best)


def _save(state: dict[str, Any], path: str | Path) -> None:
    """Writes the whole file, or leaves the old one."""
    try:
        # Given a path, torch.save has no word for a full disk but "unexpected pos".
        with atomic_file(Path(path), partial="checkpoint.partial") as file:
            torch.save(state, file)
    except (OSError, RuntimeError) as error:
        # Where the disk is full in the middle, PyTorch hides that behind an error of its own.
        disk = error if isinstance(error, OSError) else error.__context__
        if not isinstance(disk, OSError):
            raise
        raise OSError(disk.errno, disk.strerror, str(path)) from error


def _is_whole(path: str) -> bool:
    """PyTorch's files are zip archives, whose index is written last."""
    return zipfile.is_zipfile(path)
