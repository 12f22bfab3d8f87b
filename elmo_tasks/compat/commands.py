"""
Bugs of AllenNLP's own commands: options of `evaluate` and `predict` that do not work; wrong data and
configs that `train` finds late, and runs that it does not resume.

`compat.CHANGES` says what each function repairs; each may be called twice.
"""

import inspect
import json
import logging
import os
import pkgutil
import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from glob import glob
from importlib import import_module
from itertools import count
from pathlib import Path
from textwrap import shorten
from types import SimpleNamespace
from typing import Any, Optional

import allennlp.commands
from allennlp.commands import evaluate, predict
from allennlp.commands.train import TrainModel
from allennlp.common import Params, from_params, plugins, util
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import dump_metrics, is_distributed
from allennlp.data import DataLoader, DatasetReader, Vocabulary
from allennlp.models.archival import Archive
from allennlp.modules.token_embedders import Embedding
from allennlp.training import util as training_util
from allennlp.training.scheduler import Scheduler
from allennlp.training.util import make_vocab_from_params
from torch import cuda
from torch.nn import Module

from elmo_tasks.archives.checking import is_opening
from elmo_tasks.common.devices import gpu_index
from elmo_tasks.common.files import check_sources_stay
from elmo_tasks.common.values import PositiveInt, check_value
from elmo_tasks.compat.endings import is_command
from elmo_tasks.compat.repairs import wrap
from elmo_tasks.data.reader import check_readable

_OUTPUTS = {
    "--output-file": "metrics_output_file",
    "--predictions-output-file": "predictions_output_file",
}
"""The options of `allennlp evaluate` for files that it writes."""
_import_module_and_submodules = util.import_module_and_submodules


def let_evaluate_take_its_options() -> None:
    wrap(evaluate, "evaluate_from_archive", _evaluate_from_archive)
    evaluate.DataLoader = _EvaluationLoader


class _EvaluationLoader:
    @staticmethod
    def from_params(params: Params, **extras: Any) -> DataLoader:
        if params.history == "data_loader.":  # of the training, for want of a validation_data_loader
            params.pop("batches_per_epoch", None)
        if "batch_size" in params and "batch_sampler" in params:
            params["batch_sampler"]["batch_size"] = params.pop("batch_size")
        return DataLoader.from_params(params=params, **extras)


def _evaluate_from_archive(
    stock: Callable[..., dict[str, Any]], *args: Any, **options: Any
) -> dict[str, Any]:
    call = inspect.signature(stock).bind(*args, **options)
    call.apply_defaults()
    _check_and_complete(call.arguments)
    try:
        metrics = stock(*call.args, **call.kwargs)
    except RuntimeError as error:  # AllenNLP blames the model.
        if "only sometimes produced a loss" not in str(error):
            raise
        raise ConfigurationError(
            "found some data with gold annotation and some without, expected it in all that are scored"
        ) from error
    if call.arguments["metrics_output_file"] is None:
        if is_command():
            print(json.dumps(metrics, indent=2))
        else:
            dump_metrics(None, metrics, log=True)
    return metrics


def _check_and_complete(arguments: dict[str, Any]) -> None:
    """Checks the arguments of `allennlp evaluate`; rewrites a path that would be taken for JSON."""
    check_value(arguments["batch_size"], Optional[PositiveInt], "--batch-size")
    data = _data(arguments["input_file"])
    arguments["input_file"] = json.dumps(data)[1:-1]
    outputs: list[str] = []
    for option, output in _OUTPUTS.items():
        if arguments[output] is not None and arguments["auto_names"] == "NONE":
            names = arguments[output].split(",")
            if len(names) != len(data):
                raise ConfigurationError(
                    f"{option}: found {len(names)} names, expected {len(data)}, one for each of the data"
                )
            outputs += names
    _check_writable(outputs)
    sources = [arguments["archive_file"], arguments["weights_file"], *data]
    paths = [source for source in sources if isinstance(source, str | os.PathLike)]
    check_sources_stay(outputs, paths, error=ConfigurationError)
    if arguments["metrics_output_file"] is None:
        # AllenNLP tells metrics of several data apart by the names of their files.
        stems = Counter(Path(path).stem for path in data if isinstance(path, str))
        for name, times in stems.items():
            if times > 1:
                raise ConfigurationError(
                    f"found several data with the name {name}, expected --output-file with one name for each"
                )


def _data(text: str) -> list[Any]:
    if os.path.exists(text):
        return [text]
    try:
        return list(json.loads(f"[{text}]"))
    except json.JSONDecodeError:
        return text.split(",")


def _check_writable(files: list[str]) -> None:
    if len(set(files)) < len(files):
        raise ConfigurationError(f"found one output twice in {', '.join(files)}, expected different files")
    for file in map(Path, files):
        if not file.parent.is_dir():
            raise ConfigurationError(f"{file}: found no folder {file.parent}, expected one for the output")
        if file.is_dir():
            raise ConfigurationError(f"{file}: found a folder, expected the name of a file to write")


def import_named_packages() -> None:
    """Serves `--include-package`, `.allennlp_plugins`, and the workers of a distributed run."""
    for module in (util, allennlp.commands, plugins):
        module.import_module_and_submodules = _import_package


def list_only_the_package() -> None:
    """Keeps the listing of a package from importing its sub-packages by their bare names, as `heads`."""
    util.pkgutil = SimpleNamespace(walk_packages=pkgutil.iter_modules)


def _import_package(package_name: str, exclude: set[str] | None = None) -> None:
    """
    Imports a package with its submodules, but of elmo_tasks the named module alone: the suite registers
    everything that can be registered, and a module outside of it changes AllenNLP, or needs an extra.
    """
    if package_name.partition(".")[0] != "elmo_tasks":
        _import_module_and_submodules(package_name, exclude)
    elif exclude is None:  # AllenNLP's function passes a set when it calls itself for a submodule
        import_module(package_name)


def replace_predict(manager: type[predict._PredictManager], get_predictor: Callable[..., Any]) -> None:
    """Has `allennlp predict` use the classes and functions of `predictors.command`."""
    predict._PredictManager = manager
    predict._get_predictor = get_predictor


_MAY_GROW = {"trainer.num_epochs": 20, "trainer.patience": None}
"""Keys that may grow when a run goes on, and what they are where they are missing."""
_LENGTH_OF_RUN = ("num_epochs", "total_steps", "warmup_steps")
"""Attributes of a scheduler that follow from the number of epochs."""


def check_data_first() -> None:
    wrap(TrainModel, "from_partial_objects", _with_readable_data)


def _with_readable_data(stock: Callable[..., TrainModel], cls: type[TrainModel], **parts: Any) -> TrainModel:
    if not is_distributed() or parts["local_rank"] == 0:
        reader = parts.get("validation_dataset_reader") or parts["dataset_reader"]
        for key in ("validation_data_path", "test_data_path"):
            if parts.get(key) is not None:
                _check_apart(reader, parts[key])
    return stock(cls, **parts)


def _check_apart(reader: DatasetReader, path: Any) -> None:
    """Checks data without a trace in the log, which comes when they are read, or in random numbers."""
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
    if isinstance(distributed := params.get("distributed"), Params):
        _read_devices(distributed)
    saved = Path(serialization_dir, "config.json")
    if recover and not force and saved.exists():
        before = Params.from_file(saved)
        _check_same(params, before, serialization_dir)
        params = before
    if force:
        _check_sources_stay(params, serialization_dir)
    stock(params, serialization_dir, recover, force)
    has_checkpoint = any(Path(serialization_dir).glob("training_state_*.th"))
    if recover and isinstance(distributed, Params) and not has_checkpoint:
        # The vocabulary is missing, or may be cut off.
        shutil.rmtree(Path(serialization_dir, "vocabulary"), ignore_errors=True)
        make_vocab_from_params(params.duplicate(), serialization_dir)


def _check_sources_stay(params: Params, serialization_dir: str | os.PathLike[str]) -> None:
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
                    f"--force: found {key} {name} in {serialization_dir}, which --force removes; expected "
                    "another folder for the run"
                )


def _check_same(params: Params, before: Params, serialization_dir: str | os.PathLike[str]) -> None:
    new, old = params.as_flat_dict(), before.as_flat_dict()
    changes = [
        f"{key} {_shown(new, key)} in place of {_shown(old, key)}"
        for key in sorted(new.keys() | old.keys())
        if (key not in new or key not in old or new[key] != old[key])
        and not (key in _MAY_GROW and _grows(*(flat.get(key, _MAY_GROW[key]) for flat in (old, new))))
    ]
    if changes:
        raise ConfigurationError(
            f"--recover: found {', '.join(changes)}; expected the config of {serialization_dir}/config.json, "
            f"in which {' and '.join(_MAY_GROW)} may be larger"
        )


def _grows(old: Any, new: Any) -> bool:
    return new is None or (isinstance(new, int) and isinstance(old, int) and new >= old)


def _shown(flat: dict[str, Any], key: str) -> str:
    return shorten(json.dumps(flat[key]), 60) if key in flat else "nothing"


def _keep_length_of_run(stock: Callable[..., None], self: Scheduler, state_dict: dict[str, Any]) -> None:
    """Resumes a schedule that depends on the length of the run, by the length that the run has now."""
    length = {name: value for name, value in vars(self).items() if name in _LENGTH_OF_RUN}
    stock(self, state_dict)
    vars(self).update(length)


def _read_devices(distributed: Params) -> None:
    """Takes all names of devices. AllenNLP's error is about the key of a single process."""
    key = "distributed.cuda_devices"
    devices = distributed.get("cuda_devices")
    if not isinstance(devices, list):
        return
    distributed["cuda_devices"] = indices = [gpu_index(device, option=key) for device in devices]
    for device in indices:
        if device >= (num_gpus := cuda.device_count()):
            raise ConfigurationError(
                f"distributed.cuda_devices: found the GPU {device} on a machine with {num_gpus}, expected "
                "numbers below that, or -1 for each process on the CPU"
            )


def check_vocabulary_of_pretrained() -> None:
    wrap(from_params, "pop_and_construct_arg", _construct_arg)
    wrap(Archive, "extract_module", _extract_module)


_vocabulary: ContextVar[Vocabulary | None] = ContextVar("of the model that is being made", default=None)


def _construct_arg(stock: Callable[..., Any], *args: Any, **extras: Any) -> Any:
    token = _vocabulary.set(extras.get("vocab", _vocabulary.get()))
    try:
        return stock(*args, **extras)
    finally:
        _vocabulary.reset(token)


def _extract_module(
    stock: Callable[..., Module], self: Archive, path: str, *args: Any, **options: Any
) -> Module:
    """Checks modules of an archive; when an archive is opened, the weights that it has are read later."""
    module, vocabulary = stock(self, path, *args, **options), _vocabulary.get()
    if vocabulary is not None and not is_opening():
        namespaces = {part._vocab_namespace for part in module.modules() if isinstance(part, Embedding)}
        for namespace in sorted(filter(None, namespaces)):
            words, theirs = (
                each.get_index_to_token_vocabulary(namespace) for each in (vocabulary, self.model.vocab)
            )
            if words != theirs:
                index = next(index for index in count() if words.get(index) != theirs.get(index))
                raise ConfigurationError(
                    f"_pretrained: {path} has vectors of {len(theirs):,} {namespace}, and number {index} is "
                    f"{theirs.get(index)!r}; the vocabulary has {len(words):,}, and number {index} is "
                    f"{words.get(index)!r}; expected the same, by "
                    '"vocabulary": {"type": "from_files", "directory": the archive_file}'
                )
    return module
