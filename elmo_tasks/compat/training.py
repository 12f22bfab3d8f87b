"""
`allennlp train` and its configs: keys that are dropped silently, errors that are found after hours, and runs
that cannot resume.

`compat.CHANGES` says what each function changes; each may be called twice.
"""

import json
import logging
import os
import random
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import glob
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from allennlp.commands import train
from allennlp.commands.train import TrainModel
from allennlp.common import Params, from_params, util
from allennlp.common import params as params_module
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived, is_distributed
from allennlp.data import DatasetReader
from allennlp.models.archival import CONFIG_NAME, Archive
from allennlp.modules.token_embedders import Embedding
from allennlp.training import GradientDescentTrainer, Trainer
from allennlp.training import util as training_util
from allennlp.training.scheduler import Scheduler
from torch.nn import Module

from elmo_tasks.archives import usable_gpu
from elmo_tasks.common.errors import did_you_mean
from elmo_tasks.common.files import local_or_bundled
from elmo_tasks.common.strict_params import ConfigError, block_errors, jsonnet_errors
from elmo_tasks.common.table import Table
from elmo_tasks.compat.commands import is_command
from elmo_tasks.compat.repairs import around, wrap
from elmo_tasks.data.reader import check_readable

logger = logging.getLogger(__name__)

_MAY_GROW = {"trainer.num_epochs": 20, "trainer.patience": None}
"""Keys that may grow when a run is resumed, with their defaults."""
_BEST, _OF_CELLS = "best_validation_", ("confusion-", "precision-", "recall-")
"""The prefixes of the metrics of the best epoch, and of those that are too many to show."""
_VALIDATED = "validation_instances"
ARCHIVE = "model.tar.gz"
_LENGTH_OF_RUN = ("num_epochs", "total_steps", "warmup_steps")
"""Attributes of a scheduler that follow from the number of epochs."""


@around(TrainModel, "from_partial_objects")
def check_data_first(stock: Callable[..., TrainModel], cls: type[TrainModel], **parts: Any) -> TrainModel:
    if parts.get("evaluate_on_test") and (is_distributed() or not parts.get("test_data_path")):
        raise ConfigError(
            "the test needs a test_data_path, and a training in one process",
            key="evaluate_on_test",
            remedy="otherwise run `allennlp evaluate` after the training",
        )
    if not is_distributed() or parts["local_rank"] == 0:
        reader = parts.get("validation_dataset_reader") or parts["dataset_reader"]
        for key in ("validation_data_path", "test_data_path"):
            if parts.get(key) is not None:
                _check_apart(reader, parts[key])
    return stock(cls, **parts)


def _check_apart(reader: DatasetReader, path: Any) -> None:
    """Leaves the log and the random numbers unchanged."""
    disabled, drawn = logging.root.manager.disable, random.getstate()
    logging.disable(logging.WARNING)
    try:
        check_readable(reader, path)
    finally:
        logging.disable(disabled)
        random.setstate(drawn)


def repair_recovery() -> None:
    wrap(training_util, "create_serialization_dir", _create_or_recover)
    wrap(Scheduler, "load_state_dict", _keep_length_of_run)


def _create_or_recover(
    stock: Callable[..., None],
    params: Params,
    serialization_dir: str | os.PathLike[str],
    recover: bool,
    force: bool,
) -> None:
    folder = Path(serialization_dir)
    saved = folder / CONFIG_NAME
    if folder.is_dir() and not (recover or force) and any(folder.iterdir()):
        problem, remedy = "the folder has other files", "name another one"
        if saved.exists():
            problem, remedy = "the folder has a run", "--recover continues it, --force starts over"
        raise ConfigError(problem, where=folder, remedy=remedy)
    if recover and not force and saved.exists():
        before = Params.from_file(saved)
        _check_same(params, before)
        params = before
    if force:
        _refuse_inputs_as_outputs(params, serialization_dir)
    stock(params, serialization_dir, recover, force)


def _refuse_inputs_as_outputs(params: Params, serialization_dir: str | os.PathLike[str]) -> None:
    """Checks that the folder, which `--force` removes, has nothing that the run reads."""
    folder = os.path.realpath(serialization_dir)
    for key, value in params.as_flat_dict().items():
        for name in value if isinstance(value, list) else [value]:
            if not isinstance(name, str) or "activations" in key.split("."):
                continue
            path = name.partition("!")[0]  # of an archive
            is_inside = os.path.join(os.path.realpath(path), "").startswith(os.path.join(folder, ""))
            if is_inside and (os.path.exists(path) or glob(path)):
                raise ConfigurationError(
                    f"--force would remove {key} {name}, which is in {serialization_dir}; name another "
                    "folder for the run"
                )


def _check_same(params: Params, before: Params) -> None:
    new, old = params.as_flat_dict(), before.as_flat_dict()
    changes = [
        f"{key} is {_shown_value(new, key)} and was {_shown_value(old, key)}"
        for key in sorted(new.keys() | old.keys())
        if (key not in new or key not in old or new[key] != old[key])
        and not (key in _MAY_GROW and _grows(*(flat.get(key, _MAY_GROW[key]) for flat in (old, new))))
    ]
    if changes:
        raise ConfigurationError(
            f"--recover needs the config of the run: {', '.join(changes)}; only "
            f"{' and '.join(_MAY_GROW)} may grow"
        )


def _grows(old: Any, new: Any) -> bool:
    return new is None or (isinstance(new, int) and isinstance(old, int) and new >= old)


def _shown_value(flat: dict[str, Any], key: str) -> str:
    return shorten(json.dumps(flat[key]), 60) if key in flat else "missing"


def _keep_length_of_run(stock: Callable[..., None], self: Scheduler, state_dict: dict[str, Any]) -> None:
    """Resumes a schedule that depends on the length of the run, by the length that the run has now."""
    length = {name: value for name, value in vars(self).items() if name in _LENGTH_OF_RUN}
    stock(self, state_dict)
    vars(self).update(length)


def tell_how_training_ends() -> None:
    wrap(train, "train_model_from_file", _train_from_file)
    wrap(TrainModel, "finish", _finish)


def _train_from_file(stock: Callable[..., Any], *args: Any, **options: Any) -> Any:
    if not is_command():
        return stock(*args, **options)
    folder = Path(options["serialization_dir"])
    with telling_how_to_recover(folder):
        model = stock(*args, **options)
    if not options["dry_run"] and options["node_rank"] == 0:
        packages = [word for name in options["include_package"] for word in ("--include-package", name)]
        command = shlex.join(["allennlp", "evaluate", str(folder / ARCHIVE), "TEST", *packages])
        print(f"{end_of_training(folder)}\n\n{command}")
    return model


def _finish(stock: Callable[..., None], self: TrainModel, metrics: dict[str, Any]) -> None:
    """Notes how many instances the scores are of."""
    loader = getattr(self.trainer, "_validation_data_loader", None)
    if (instances := getattr(loader, "_instances", None)) and not is_distributed():
        metrics[_VALIDATED] = len(instances)
    stock(self, metrics)


@contextmanager
def telling_how_to_recover(folder: Path) -> Iterator[None]:
    """Adds to Ctrl-C and SIGTERM what is kept of the training in the folder, and how to go on."""
    try:
        yield
    except (KeyboardInterrupt, SigTermReceived) as error:
        if (folder / CONFIG_NAME).exists():
            epochs = len(list(folder.glob("metrics_epoch_*.json")))
            archive = folder / ARCHIVE
            kept = f", the best of which is in {archive}" if archive.exists() else ""
            error.add_note(f"epochs that are done: {epochs}{kept}")
            error.add_note("the same command continues with --recover, and starts over with --force")
        raise


def end_of_training(folder: Path) -> str:
    """Returns the scores of the best epoch, the reason for the end, and the archive."""
    metrics = json.loads((folder / "metrics.json").read_text("utf-8"))
    archive = f"The archive is {folder / ARCHIVE}, its config {folder / CONFIG_NAME}."
    if "epoch" not in metrics:  # nothing was left to train, or the trainer is of another kind
        return archive
    trainer = Params.from_file(folder / CONFIG_NAME)["trainer"]
    epoch, best = metrics["epoch"] + 1, metrics.get("best_epoch", metrics["epoch"]) + 1
    of = f" on {metrics[_VALIDATED]:,} validation instances" if _VALIDATED in metrics else ""
    table = Table((f"score{of}", f"epoch {best}"))
    for key, value in metrics.items():
        name = key.removeprefix(_BEST)
        if key.startswith(_BEST) and not name.startswith(_OF_CELLS) and isinstance(value, float):
            table.add(name, round(value, 4))
    reason, patience = "it was told to stop", trainer.get("patience")
    if epoch >= trainer.get("num_epochs", 20):
        reason = "this was the last one"
    elif patience is not None and epoch - best >= patience:
        reason = f"{patience} in a row were no better (trainer.patience)"
    chosen = trainer.get("validation_metric", "-loss")
    names = " and ".join(name.lstrip("+-") for name in ([chosen] if isinstance(chosen, str) else chosen))
    scores = f"\n{table.markdown()}\nEpoch {best} has the best {names}. " if table.rows else "\n"
    return f"{scores}Training ended after epoch {epoch}: {reason}.\n{archive}"


def check_vocabulary_of_pretrained() -> None:
    wrap(Archive, "extract_module", _extract_module)
    wrap(TrainModel, "__init__", _check_pretrained)


def _extract_module(
    stock: Callable[..., Module], self: Archive, path: str, *args: Any, **options: Any
) -> Module:
    """Notes the vocabulary of the archive that a module comes from."""
    module = stock(self, path, *args, **options)
    module._vocabulary_of_archive = self.model.vocab
    return module


def _check_pretrained(stock: Callable[..., None], self: TrainModel, *args: Any, **options: Any) -> None:
    stock(self, *args, **options)
    for name, module in self.model.named_modules():
        theirs = vars(module).get("_vocabulary_of_archive")
        embeddings = (part for part in module.modules() if theirs and isinstance(part, Embedding))
        for namespace in sorted({part._vocab_namespace for part in embeddings if part._vocab_namespace}):
            words, their_words = (
                each.get_index_to_token_vocabulary(namespace) for each in (self.model.vocab, theirs)
            )
            if words != their_words:
                raise ConfigError(
                    f"the {len(their_words):,} {namespace} of the archive are not the {len(words):,} of the "
                    "vocabulary, so words would get the vectors of others",
                    key=f"model.{name}._pretrained",
                    remedy='use "vocabulary": {"type": "from_files", "directory": the archive_file}',
                )


def check_trainer() -> None:
    GradientDescentTrainer.from_params = classmethod(_trainer_from_params)
    wrap(GradientDescentTrainer, "train", _train)
    wrap(util, "int_to_device", _device)


def _device(stock: Callable[..., torch.device], device: int | torch.device) -> torch.device:
    try:
        return stock(device)
    except RuntimeError:  # PyTorch's own, before AllenNLP can say that there is no GPU
        return torch.device("cuda", device)  # type: ignore[arg-type]


def _trainer_from_params(
    cls: type[GradientDescentTrainer], params: Params, *args: Any, **options: Any
) -> Trainer:
    """Checks the keys of the trainer, which drops unknown ones: `num_epoch` would train 20 epochs."""
    parameters = from_params.infer_params(cls, options.get("constructor_to_inspect"))
    for key in params.keys() - parameters.keys():
        what, hint = f"{cls.__name__} has no parameter {key!r}", did_you_mean(key, parameters)
        if hint:
            raise ConfigError(what + hint, key=f"{params.history}{key}")
        logger.warning("%s%s: %s; here it has no effect", params.history, key, what)
    with block_errors(params.history):
        if (device := params.get("cuda_device")) is not None:
            params["cuda_device"] = usable_gpu(device)
    if params.get("grad_norm", False) is None:
        params["grad_norm"] = False  # AllenNLP's word for none
    return super(GradientDescentTrainer, cls).from_params(params, *args, **options)


def _train(stock: Callable[..., Any], self: GradientDescentTrainer) -> Any:
    """
    Checks the names of the metrics that choose the best epoch of a model of ours; of other models they are
    known after an epoch. A metric of a label, such as `f1-PER`, and the metrics of a biLM come with the data.
    """
    of_ours = type(self.model).__module__.startswith("elmo_tasks.")
    if self._validation_data_loader is not None and of_ours and (own := self.model.get_metrics(reset=True)):
        metrics = {*own, "loss", "reg_loss"}
        for _, name in self._metric_tracker.tracked_metrics:
            if metrics.isdisjoint((name, name.partition("-")[0])):
                hint = did_you_mean(name, metrics) or f"; the model has {', '.join(sorted(metrics))}"
                raise ConfigError(
                    f"{name!r} is not a metric of the model{hint}", key="trainer.validation_metric"
                )
    try:
        return stock(self)
    except ValueError as error:
        if str(error) != "nan loss encountered":
            raise
        raise ConfigError(
            f"the loss is NaN in epoch {self._epochs_completed + 1}, batch "
            f"{self._batches_in_epoch_completed + 1}: training diverged",
            remedy="take a lower trainer.optimizer.lr, or clip the gradients by trainer.grad_norm",
        ) from error


def read_configs() -> None:
    if find_spec("_jsonnet") is None and find_spec("_gojsonnet") is not None:
        # The same functions, with wheels for ARM Linux, where jsonnet has none
        for name in ("evaluate_file", "evaluate_snippet"):
            setattr(params_module, name, getattr(import_module("_gojsonnet"), name))
    wrap(params_module, "cached_path", _cached_path)
    wrap(params_module, "parse_overrides", _parse_overrides)
    wrap(params_module, "with_overrides", _with_overrides)
    wrap(Params, "from_file", _from_file)


def _cached_path(stock: Callable[..., str], path: str | os.PathLike[str], *args: Any, **options: Any) -> str:
    """Finds a config of the user, or of the project, without the clients of all stores."""
    path = local_or_bundled(path)
    return path if os.path.exists(path) else stock(path, *args, **options)


def _parse_overrides(stock: Callable[..., dict[str, Any]], *args: Any, **options: Any) -> dict[str, Any]:
    with jsonnet_errors("overrides"):
        return stock(*args, **options)


def _with_overrides(
    stock: Callable[..., Any], original: Any, overrides_dict: dict[str, Any], prefix: str = ""
) -> Any:
    """Logs a warning where a block takes the place of another one, and does not have all of its keys."""
    for name, block in overrides_dict.items():
        before = original.get(name) if isinstance(original, dict) else None
        if isinstance(before, dict) and isinstance(block, dict) and "type" not in block:
            key = f"{prefix}{name}"
            if dropped := [each for each in before if each not in block]:
                dotted = json.dumps({f"{key}.{each}": value for each, value in block.items()})
                logger.warning(
                    "overrides: %s is a new block without %s; to keep them, write %s",
                    key,
                    ", ".join(dropped),
                    dotted,
                )
    return stock(original, overrides_dict, prefix)


def _from_file(
    stock: Callable[..., Params], cls: type[Params], path: str | os.PathLike[str], *args: Any, **options: Any
) -> Params:
    """Raises a `ConfigError` for what is not Jsonnet, and for overrides that do not fit the config."""
    with jsonnet_errors(path):
        return stock(cls, path, *args, **options)
