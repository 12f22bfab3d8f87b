"""Runs in MLflow."""

import json
import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Optional
from zlib import crc32

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import CONFIG_NAME, archive_model
from allennlp.training import GradientDescentTrainer, TrainerCallback

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Name

logger = logging.getLogger(__name__)

RUN_ID_FILE = "mlflow_run_id"
"""A file in the serialization folder; with it, `--recover` continues the same run."""
_MAX_NAME = 250


@TrainerCallback.register("elmo_mlflow")
class MlflowCallback(StrictParams, TrainerCallback):
    """
    A callback that logs a run to MLflow: the keys of the config as parameters; all metrics of each epoch,
    from 0; and at the end the archive `model.tar.gz`. It comes after the callbacks whose metrics it logs.
    Metrics on test data (`evaluate_on_test`) are not logged. If the store cannot be reached later, the
    training continues, with a warning.

    # Parameters

    tracking_uri : a store or server, as MLflow takes it; null: a store of the run itself, `mlflow.db` and
        `mlruns` in its folder, which needs no server.
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
        try:
            import mlflow
        except ImportError as error:
            raise ConfigurationError(
                "elmo_mlflow needs MLflow, which is not installed: pip install mlflow -c requirements.lock"
            ) from error
        self._mlflow = mlflow
        self._folder = Path(serialization_dir).resolve()
        self._tracking_uri = tracking_uri
        self._experiment = experiment
        self._run_name = run_name

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        if not is_primary:
            return
        uri = self._tracking_uri or f"sqlite:///{self._folder / 'mlflow.db'}"
        try:
            self._client = self._mlflow.MlflowClient(tracking_uri=uri)
            self._run_id = self._run()
        except Exception as error:  # each kind of store raises its own classes, with no common base
            raise ConfigurationError(f"elmo_mlflow: tracking_uri {uri!r} cannot be used: {error}") from error

    def on_epoch(
        self,
        trainer: GradientDescentTrainer,
        metrics: dict[str, Any],
        epoch: int,
        is_primary: bool = True,
        **kwargs: Any,
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
        metrics: dict[str, Any] | None = None,
        epoch: int | None = None,
        is_primary: bool = True,
        **kwargs: Any,
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
        own = (self._folder / "mlruns").as_uri() if self._tracking_uri is None else None
        return self._client.create_experiment(self._experiment, artifact_location=own)

    def _config(self) -> dict[str, Any]:
        return json.loads((self._folder / CONFIG_NAME).read_text(encoding="utf-8"))


@contextmanager
def _attempt(call: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # each kind of store raises its own classes, with no common base
        logger.warning("elmo_mlflow: %s failed, nothing was logged: %s", call, error)


def _mlflow_name(key: str) -> str:
    """
    Returns a name that MLflow accepts, since a single bad name makes it refuse all metrics of an epoch. Other
    characters are written as code points, so that different keys stay different.
    """
    name = re.sub(r"[^\w\-. ]", lambda character: f"_{ord(character[0]):x}_", key)
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 9]}_{crc32(key.encode()):08x}"
