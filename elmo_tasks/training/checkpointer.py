"""Checkpoints that survive a kill at any moment, even while they are written."""

import logging
import os
import zipfile
from pathlib import Path
from typing import Any, ClassVar, Optional

import torch
import torch.distributed as dist
from allennlp.common import util
from allennlp.common.util import is_distributed
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.trainer import Trainer, TrainerCheckpoint
from torch import nn

from elmo_tasks.common.files import atomic_file, full_disk_errors
from elmo_tasks.common.strict_params import ConfigError, StrictParams
from elmo_tasks.common.values import NonNegativeInt, PositiveFloat, PositiveInt
from elmo_tasks.modules.metrics import gather_from_workers

logger = logging.getLogger(__name__)

_WORKERS = "workers"
_AVERAGES = "averages_of_state"


@Checkpointer.register("elmo_safe")
class SafeCheckpointer(StrictParams, Checkpointer):
    """
    AllenNLP's checkpointer, for runs that may be killed and disks that may be full. A file gets its name only
    when it is complete, a checkpoint is used only if both of its files are complete, and the best weights are
    restored if a kill came between them and their checkpoint.

    In a distributed run a checkpoint also holds the state of each process: the extra state of modules, such
    as the streams of a biLM, and the state of callbacks. Each of several machines writes its own folder.

    It has the parameters of AllenNLP's `Checkpointer`.
    """

    inherited_values: ClassVar[dict[str, Any]] = {
        "save_every_num_seconds": Optional[PositiveFloat],
        "save_every_num_batches": Optional[PositiveInt],
        "keep_most_recent_by_count": Optional[PositiveInt],
        "keep_most_recent_by_age": Optional[NonNegativeInt],
    }

    _agreed: set[tuple[int, int]] | None = None
    """While a distributed run is resumed: the checkpoints that are complete on all machines."""

    @property
    def _is_primary(self) -> bool:
        return self._rank % int(os.environ.get("ALLENNLP_PROCS_PER_NODE", "1")) == 0

    def save_checkpoint(self, trainer: Trainer) -> None:
        """Removes unfinished checkpoints, which AllenNLP does not overwrite, before it writes the new one."""
        workers = gather_from_workers(_own_state(trainer)) if is_distributed() else []
        if self._is_primary:
            for checkpoint in self._find_all_checkpoints() - self._whole_checkpoints():
                logger.warning("removing an unfinished checkpoint: %s", self._paths(checkpoint))
                self._remove_checkpoint(*checkpoint)
        if (state := trainer.get_checkpoint_state()) is not None:
            done = state.trainer_state
            paths = self._paths((done["epochs_completed"], done["batches_in_epoch_completed"]))
            if workers:
                done[_WORKERS] = workers
            if trainer._moving_average is not None and _is_best(done):
                done[_AVERAGES] = _averages(trainer, state.model_state)
            # An existing file of this name, of a run that went further on another machine, is replaced.
            for part, path in zip((state.model_state, done), paths, strict=True):
                _save(part, path)
        else:
            # AllenNLP sets these only in the process that writes, but all must save at the same batch.
            self._last_save_num_epochs_completed = trainer._epochs_completed
            self._last_save_num_batches_in_epoch_completed = trainer._batches_in_epoch_completed
        if is_distributed():
            dist.barrier()
        # AllenNLP's method finds the files written, and removes the oldest ones.
        super().save_checkpoint(trainer)

    def find_latest_checkpoint(self) -> tuple[str, str] | None:
        """Returns the newest checkpoint with two complete files; the log names the ones passed over."""
        checkpoints = self._whole_checkpoints() if self._agreed is None else self._agreed
        latest = max(checkpoints, default=None)
        for checkpoint in sorted(self._find_all_checkpoints(), reverse=True):
            if latest is None or checkpoint > latest:
                logger.warning(
                    "passing over an unfinished checkpoint: %s", ", ".join(self._paths(checkpoint))
                )
        return None if latest is None else self._paths(latest)

    def load_checkpoint(self) -> TrainerCheckpoint | None:
        """Reads the newest checkpoint; in a distributed run, the newest one that all machines have."""
        if is_distributed():
            self._agreed = set.intersection(*gather_from_workers(self._whole_checkpoints()))
        try:
            checkpoint = super().load_checkpoint()
        finally:
            self._agreed = None
        if checkpoint is not None:
            self._restore_best(checkpoint)
            workers = checkpoint.trainer_state.pop(_WORKERS, [])
            if is_distributed() and len(workers) == dist.get_world_size():
                own = workers[self._rank]
                checkpoint.model_state.update(own["modules"])
                checkpoint.trainer_state["callbacks"] = own["callbacks"]
        return checkpoint

    def _find_all_checkpoints(self) -> set[tuple[int, int]]:
        """Finds checkpoints also in a folder with `[` in its name, which AllenNLP takes for a pattern."""
        worker = f"_w{self._rank}" if self.state_is_sharded else ""
        files = Path(self._serialization_dir).glob(f"model_state_e*_b*{worker}.th")
        parsed = map(self._parse_model_state_path, files)
        return {checkpoint for checkpoint in parsed if checkpoint is not None}

    def _remove_checkpoint(self, epochs_completed: int, batches_in_epoch_completed: int) -> None:
        """AllenNLP's pattern for the checkpoint after 5 batches also matches those after 50 to 59."""
        name = f"state_e{epochs_completed}_b{batches_in_epoch_completed}"
        for suffix in (".th", "_w*.th"):
            for path in Path(self._serialization_dir).glob(f"*_{name}{suffix}"):
                path.unlink()

    def _whole_checkpoints(self) -> set[tuple[int, int]]:
        # PyTorch writes zip archives, and their index last.
        return {
            checkpoint
            for checkpoint in self._find_all_checkpoints()
            if all(map(zipfile.is_zipfile, self._paths(checkpoint)))
        }

    def _paths(self, checkpoint: tuple[int, int]) -> tuple[str, str]:
        return self._model_state_path(*checkpoint), self._training_state_path(*checkpoint)

    def _restore_best(self, checkpoint: TrainerCheckpoint) -> None:
        """
        Writes `best.th` again from the checkpoint of the best epoch: the trainer writes it after the
        checkpoint, so that a kill between the two leaves it missing, cut off or old. The folder may have
        another name.
        """
        state: dict[str, Any] = checkpoint.trainer_state
        best = Path(self._serialization_dir) / "best.th"
        if state["best_model_filename"] is not None:
            state["best_model_filename"] = str(best)
        # States without `averages_of_state` hold the moving average by the names of parameters.
        averages = state.pop(_AVERAGES, state.get("moving_average", {"shadows": {}})["shadows"])
        if not _is_best(state):
            if best.exists() and not zipfile.is_zipfile(best):
                epoch = state["metric_tracker"]["best_epoch"] + 1
                raise ConfigError(
                    "the file was cut off, and the newest checkpoint is not of the best epoch",
                    where=best,
                    remedy=f"copy model_state_e{epoch}_b0.th to it if it is there, or train again by --force",
                )
            return
        if self._is_primary:
            _save({**checkpoint.model_state, **averages}, best)
        state["best_model_filename"] = str(best)


def _own_state(trainer: Trainer) -> dict[str, Any]:
    modules = {
        f"{name}._extra_state".removeprefix("."): module.get_extra_state()
        for name, module in trainer.model.named_modules()
        if type(module).get_extra_state is not nn.Module.get_extra_state
    }
    return {"modules": modules, "callbacks": [callback.state_dict() for callback in trainer._callbacks]}


def _is_best(state: dict[str, Any]) -> bool:
    """Returns whether the checkpoint ends the best epoch; without validation every epoch is the best."""
    return bool(state["batches_in_epoch_completed"] == 0 and state["metric_tracker"]["is_best_so_far"])


def _averages(trainer: Trainer, weights: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Returns averaged weights by their names in the state dict, which may differ from the parameters'."""
    trainer._moving_average.assign_average_value()
    try:
        state = trainer.get_checkpoint_state().model_state
        averaged = {name: value.clone() for name, value in state.items() if isinstance(value, torch.Tensor)}
    finally:
        trainer._moving_average.restore()
    return {name: value for name, value in averaged.items() if not torch.equal(value, weights[name])}


def _save(state: dict[str, Any], path: str | Path) -> None:
    try:
        # With a path instead of a file, torch.save says only "unexpected pos" if the disk is full.
        with full_disk_errors(path), atomic_file(Path(path), partial="checkpoint.partial") as file:
            torch.save(state, file)
    except RuntimeError as error:
        # So it does when a signal stops it.
        if isinstance(error.__context__, KeyboardInterrupt | util.SigTermReceived):
            raise error.__context__ from None
        raise
