"""Callbacks: a resumed run that repeats exactly, workers that share a machine's cores, and runs in MLflow."""

import hashlib
import json
import logging
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Optional, TypeVar

import torch
import torch.distributed as dist
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.data import DataLoader
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.models.archival import CONFIG_NAME, archive_model
from allennlp.training import GradientDescentTrainer, TrainerCallback

from elmo_tasks.common.errors import errors_as
from elmo_tasks.common.strict_params import ConfigError, StrictParams
from elmo_tasks.common.values import Name
from elmo_tasks.elmo import Elmo, LstmState
from elmo_tasks.training.sampling import ElmoBucketSampler

logger = logging.getLogger(__name__)

Validated = TypeVar("Validated")


@TrainerCallback.register("elmo_repeatable")
class RepeatableCallback(StrictParams, TrainerCallback):
    """
    A callback for runs that repeat exactly. A run that was killed and resumed with `--recover` gives the same
    weights and validation metrics as an uninterrupted one. If it is resumed within an epoch, AllenNLP counts
    the training metrics of that epoch over its later batches alone.

    AllenNLP repeats the order of the data, but not dropout. This callback seeds PyTorch's generator before
    each training batch, from the run's seed, the epoch, the batch and the worker. So no state has to be
    saved, and other callbacks may draw random numbers. The state that an `Elmo` with `stateful: true` carries
    from batch to batch is in the checkpoint.

    A resumed run does not repeat past validations. So a validation leaves Python's random numbers as they
    were, and `shuffle` of its data loader is ignored. After a kill that follows the last epoch, or after
    early stopping, the run ends with the metrics of its last epoch. A data loader with several `num_workers`
    yields instances in a different order each time; the log warns of it.

    # Raises
    `ConfigurationError`, when a run starts: its data loader has `max_instances_in_memory`, while a sampler
    must know all batches of several processes. When it is resumed: its `Elmo` carries a state in each of
    several processes, and the checkpoint holds the state of other processes.
    """

    def __init__(self, serialization_dir: str) -> None:
        super().__init__(serialization_dir)
        self._seed = 0
        self._epoch = 0
        self._batches = 0
        # Forward passes within the coming batch: several, if gradients are accumulated
        self._forwards = 0
        self._carried: dict[str, list[torch.Tensor]] = {}
        self._metrics: dict[str, object] = {}
        self._elmos: dict[str, Elmo] = {}
        self._saved_by: tuple[int, int] | None = None

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: object) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        for loader in (trainer.data_loader, trainer._validation_data_loader):
            _check_loader(loader)
        trainer._validation_loss = _without_draws(trainer._validation_loss)
        if isinstance(trainer._validation_data_loader, MultiProcessDataLoader):
            trainer._validation_data_loader.shuffle = False
        self._seed = torch.initial_seed()
        if trainer._metric_tracker.should_stop_early():
            trainer._num_epochs = trainer._start_after_epochs_completed
        self._hook = trainer.model.register_forward_pre_hook(self._seed_batch)
        self._elmos = {
            name: module
            for name, module in trainer.model.named_modules()
            if isinstance(module, Elmo) and module.stateful
        }
        self._restore_carried()
        # `on_end` puts the settings of the process back; it is called after an error, too.
        self._settings = (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        )
        # Otherwise kernels with several threads add up in a different order from run to run. No code here
        # reads memory that it has not written.
        _make_deterministic(True, warn_only=True, fill_memory=False)

    def on_batch(
        self,
        trainer: GradientDescentTrainer,
        batch_inputs: object,
        batch_outputs: object,
        batch_metrics: object,
        epoch: int,
        batch_number: int,
        is_training: bool,
        **kwargs: object,
    ) -> None:
        if is_training:
            self._epoch, self._batches, self._forwards = epoch, batch_number, 0

    def on_epoch(
        self, trainer: GradientDescentTrainer, metrics: dict[str, object], epoch: int, **kwargs: object
    ) -> None:
        self._epoch, self._batches, self._forwards = epoch + 1, 0, 0
        # AllenNLP keeps metrics of earlier epochs that later ones lack, such as the score of a label.
        for name, value in self._metrics.items():
            metrics.setdefault(name, value)
        self._metrics = metrics

    def on_end(
        self,
        trainer: GradientDescentTrainer,
        metrics: dict[str, object] | None = None,
        *finish: object,
        **kwargs: object,
    ) -> None:
        # No metrics: the training was interrupted. Metrics without an epoch: no epoch was left to train.
        if metrics is not None and "epoch" not in metrics:
            metrics.update(self._metrics)
        self._hook.remove()
        enabled, warn_only, fill_memory = self._settings
        _make_deterministic(enabled, warn_only=warn_only, fill_memory=fill_memory)

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
            "process": _rank_and_size(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._epoch, self._batches = state_dict["epoch"], state_dict["batches"]
        self._carried = state_dict.get("carried", {})
        self._metrics = state_dict.get("metrics", {})
        self._saved_by = state_dict.get("process")

    def _restore_carried(self) -> None:
        if self._carried and is_distributed() and self._saved_by != _rank_and_size():
            rank, world_size = _rank_and_size()
            raise ConfigurationError(
                "stateful: true carries a state in each process, but the checkpoint has no state of process "
                f"{rank} of {world_size}; use the checkpointer elmo_safe and as many processes as before"
            )
        for name, state in self._carried.items():
            elmo = self._elmos[name]
            elmo.carried.value = LstmState(*(part.to(elmo.start_hidden) for part in state))

    def _seed_batch(self, model: torch.nn.Module, inputs: object) -> None:
        if not model.training:
            return
        key = f"{self._seed} {self._epoch} {self._batches} {self._forwards} {_rank_and_size()[0]}".encode()
        self._forwards += 1
        torch.manual_seed(int.from_bytes(hashlib.blake2b(key, digest_size=7).digest(), "big"))


def _make_deterministic(enabled: bool, *, warn_only: bool, fill_memory: bool) -> None:
    torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
    torch.utils.deterministic.fill_uninitialized_memory = fill_memory  # type: ignore[attr-defined]


def _without_draws(validate: Callable[[int], Validated]) -> Callable[[int], Validated]:
    def validate_apart(epoch: int) -> Validated:
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
            "data_loader.num_workers is %d: instances come in a different order each time, so that the same "
            "seed gives another result; with 0 or 1 it gives the same",
            loader.num_workers,
        )
    in_step = is_distributed() and isinstance(loader.batch_sampler, ElmoBucketSampler)
    if in_step and loader.max_instances_in_memory is not None:
        raise ConfigurationError(
            "data_loader.max_instances_in_memory must be null in several processes, which make the batches "
            "of all instances together"
        )


def _rank_and_size() -> tuple[int, int]:
    return (dist.get_rank(), dist.get_world_size()) if is_distributed() else (0, 1)


@TrainerCallback.register("elmo_share_cores")
class ShareCoresCallback(StrictParams, TrainerCallback):
    """
    A callback that gives each worker its share of the cores. By default each worker takes all cores, and
    workers that wait for each other's threads are many times slower than one process. It does nothing in a
    run of one process, on GPUs, or if `OMP_NUM_THREADS` is set.
    """

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: object) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        on_cpu = trainer.cuda_device.type == "cpu"
        if is_distributed() and on_cpu and "OMP_NUM_THREADS" not in os.environ:
            workers = int(os.environ.get("ALLENNLP_PROCS_PER_NODE", "1"))
            torch.set_num_threads(max(1, torch.get_num_threads() // workers))


RUN_ID_FILE = "mlflow_run_id"
"""A file in the serialization folder; with it, `--recover` continues the same run."""


@TrainerCallback.register("elmo_mlflow")
class MlflowCallback(StrictParams, TrainerCallback):
    """
    A callback that logs a run to MLflow: the keys of the config as parameters; all metrics of each epoch,
    from 0; and at the end the archive `model.tar.gz`. It comes after the callbacks whose metrics it logs.
    Metrics on test data (`evaluate_on_test`) are not logged. If the store cannot be reached later, the
    training continues, with a warning.

    # Parameters

    tracking_uri : a store or server, as MLflow takes it; null: the one of the environment variable
        MLFLOW_TRACKING_URI, or a store of the run itself, `mlflow.db` in its folder, which needs no server.
        The archives of a new experiment in such a file are in `mlruns` beside it.
    experiment : name of the experiment, which is created if there is none.
    run_name : null: the name of the serialization folder.

    # Raises
    `ConfigurationError`: MLflow is not installed; or, at the start, its store cannot be opened.
    """

    def __init__(
        self,
        serialization_dir: str,
        *,
        tracking_uri: Optional[Name] = None,
        experiment: Name = "elmo",
        run_name: Optional[Name] = None,
    ) -> None:
        super().__init__(serialization_dir)
        remedy = "pip install mlflow -c requirements/main.lock"
        with errors_as(ConfigError, "elmo_mlflow needs MLflow", ImportError, remedy=remedy):
            import mlflow
        self._mlflow = mlflow
        self._folder = Path(serialization_dir).resolve()
        own = f"sqlite:///{self._folder / 'mlflow.db'}"
        self._uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or own
        self._experiment = experiment
        self._run_name = run_name

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: object) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        if not is_primary:
            return
        # Each kind of store raises its own classes, with no common base.
        with errors_as(ConfigError, f"elmo_mlflow: tracking_uri {self._uri!r} cannot be used"):
            self._client = self._mlflow.MlflowClient(tracking_uri=self._uri)
            self._run_id = self._run()

    def on_epoch(
        self,
        trainer: GradientDescentTrainer,
        metrics: dict[str, object],
        epoch: int,
        is_primary: bool = True,
        **kwargs: object,
    ) -> None:
        if is_primary:
            now = int(1000 * time.time())
            numbers = [
                self._mlflow.entities.Metric(_mlflow_name(key), value, now, epoch)
                for key, value in metrics.items()
                if isinstance(value, int | float)
            ]
            with _attempt("log_batch"):
                self._client.log_batch(self._run_id, metrics=numbers)

    def on_end(
        self,
        trainer: GradientDescentTrainer,
        metrics: dict[str, object] | None = None,
        epoch: int | None = None,
        is_primary: bool = True,
        **kwargs: object,
    ) -> None:
        """Ends the run of MLflow. Without metrics, the training was interrupted."""
        if not is_primary:
            return
        if metrics is not None:
            # AllenNLP makes its own archive later, and calls no callback after that.
            with TemporaryDirectory(dir=self._folder) as folder:
                files = self._config().get("include_in_archive")
                archive = archive_model(self._folder, archive_path=folder, include_in_archive=files)
                with _attempt("log_artifact"):
                    self._client.log_artifact(self._run_id, archive)
        with _attempt("set_terminated"):
            self._client.set_terminated(self._run_id, status="FAILED" if metrics is None else "FINISHED")

    def _run(self) -> str:
        file = self._folder / RUN_ID_FILE
        if file.exists():
            run_id = file.read_text(encoding="utf-8")
            with suppress(Exception):  # another store than before does not have it
                self._client.update_run(run_id, status="RUNNING")
                return run_id
        run = self._client.create_run(self._experiment_id(), run_name=self._run_name or self._folder.name)
        params = [
            self._mlflow.entities.Param(_mlflow_name(key), str(value))
            for key, value in Params(self._config()).as_flat_dict().items()
        ]
        self._client.log_batch(run.info.run_id, params=params)
        file.write_text(run.info.run_id, encoding="utf-8")
        return run.info.run_id

    def _experiment_id(self) -> str:
        experiment = self._client.get_experiment_by_name(self._experiment)
        if experiment is not None:
            return experiment.experiment_id
        _, _, database = self._uri.partition("sqlite:///")
        beside = Path(database).with_name("mlruns").resolve().as_uri() if database else None
        return self._client.create_experiment(self._experiment, artifact_location=beside)

    def _config(self) -> dict[str, Any]:
        return json.loads((self._folder / CONFIG_NAME).read_text(encoding="utf-8"))


@contextmanager
def _attempt(call: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # each kind of store raises its own classes, with no common base
        logger.warning("elmo_mlflow: %s failed, nothing was logged: %s", call, error)


def _mlflow_name(key: str) -> str:
    """Writes characters that MLflow refuses as code points: one bad name would lose an epoch's metrics."""
    return re.sub(r"[^\w\-. ]", lambda character: f"_{ord(character[0]):x}_", key)
