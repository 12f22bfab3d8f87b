"""Checkpoints that survive a kill at any moment, also while they are written."""

import logging
import os
import zipfile
from pathlib import Path
from typing import Any, Optional

import torch
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.trainer import Trainer, TrainerCheckpoint

logger = logging.getLogger(__name__)


@Checkpointer.register("elmo_safe")
class SafeCheckpointer(Checkpointer):
    """
    AllenNLP's checkpointer, for runs that may be killed: a checkpoint is used only if both of its files are
    whole, and the best weights are put in order if the kill came between them and their checkpoint.

    Its parameters are those of AllenNLP's `Checkpointer`.
    """

    def save_checkpoint(self, trainer: Trainer) -> None:
        """Nothing of an unfinished checkpoint keeps its place from being written again."""
        if self._is_primary:
            for checkpoint in self._find_all_checkpoints():
                if not all(map(_is_whole, self._paths(checkpoint))):
                    logger.warning("removing an unfinished checkpoint: %s", self._paths(checkpoint))
                    self._remove_checkpoint(*checkpoint)
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
        # With a moving average the best weights are not those of the checkpoint.
        if not (end_of_epoch and tracker["best_so_far"] is not None and tracker["is_best_so_far"]):
            return
        if "moving_average" in state:
            return
        best = Path(self._serialization_dir) / "best.th"
        if self._is_primary:
            partial = best.with_suffix(".partial")
            torch.save(checkpoint.model_state, partial)
            os.replace(partial, best)
        state["best_model_filename"] = str(best)


def _is_whole(path: str) -> bool:
    """PyTorch's files are zip archives, whose index is written last."""
    return zipfile.is_zipfile(path)
