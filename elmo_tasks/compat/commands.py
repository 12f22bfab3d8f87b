"""
AllenNLP's commands `evaluate` and `predict`, and the packages that a command imports.

`compat.CHANGES` says what each function changes; each may be called twice.
"""

import argparse
import inspect
import json
import os
import pkgutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import allennlp.commands
from allennlp.commands import evaluate, predict
from allennlp.common import Params, plugins, util
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import dump_metrics
from allennlp.data import DataLoader

from elmo_tasks.common.files import check_sources_stay
from elmo_tasks.common.machine import read_gpu
from elmo_tasks.compat.command_output import is_command
from elmo_tasks.compat.repairs import wrap

_import_module_and_submodules = util.import_module_and_submodules


def let_evaluate_take_its_options() -> None:
    wrap(evaluate, "evaluate_from_archive", _evaluate_from_archive)
    evaluate.DataLoader = _EvaluationLoader
    for command in (evaluate.Evaluate, predict.Predict):
        wrap(command, "add_subparser", _add_device)


def _add_device(stock: Callable[..., argparse.ArgumentParser], *args: Any) -> argparse.ArgumentParser:
    """Lets a command take a device by all the names that ours take."""
    parser = stock(*args)
    action = parser._option_string_actions["--device"] = parser._option_string_actions["--cuda-device"]
    action.option_strings, action.type = ["--device", "--cuda-device"], read_gpu
    return parser


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
    _check_data_and_outputs(call.arguments)
    metrics = stock(*call.args, **call.kwargs)
    if call.arguments["metrics_output_file"] is None:
        if is_command():
            print(json.dumps(metrics, indent=2))
        else:
            dump_metrics(None, metrics, log=True)
    return metrics


def _check_data_and_outputs(arguments: dict[str, Any]) -> None:
    """Checks the arguments of `allennlp evaluate`; rewrites a path that would be taken for JSON."""
    data = _data(arguments["input_file"])
    arguments["input_file"] = json.dumps(data)[1:-1]
    given = (arguments["metrics_output_file"], arguments["predictions_output_file"])
    outputs = [name for names in given if names is not None for name in names.split(",")]
    for output in map(Path, outputs):
        if not output.parent.is_dir():
            raise ConfigurationError(f"{output}: the folder {output.parent} does not exist")
    sources = [arguments["archive_file"], arguments["weights_file"], *data]
    paths = [source for source in sources if isinstance(source, str | os.PathLike)]
    check_sources_stay(outputs, paths, error=ConfigurationError)
    # AllenNLP tells the metrics of several data apart by the names of their files.
    names = [Path(path).stem for path in data if isinstance(path, str)]
    if arguments["metrics_output_file"] is None and len(set(names)) < len(names):
        raise ConfigurationError("several data have the same name; use --output-file with a name for each")


def _data(text: str) -> list[Any]:
    if os.path.exists(text):
        return [text]
    try:
        return list(json.loads(f"[{text}]"))
    except json.JSONDecodeError:
        return text.split(",")


def import_named_packages() -> None:
    """Serves `--include-package`, `.allennlp_plugins`, and the workers of a distributed run."""
    for module in (util, plugins):
        module.import_module_and_submodules = _import_package
    allennlp.commands.import_module_and_submodules = _include_package
    # Lists a package without importing its sub-packages by their bare names, such as `heads`
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


def _include_package(package_name: str) -> None:
    try:
        _import_package(package_name)
    except ModuleNotFoundError as error:
        if error.name != package_name.partition(".")[0]:
            raise
        raise ConfigurationError(f"--include-package: there is no package {error.name}") from error


def replace_predict(manager: type[predict._PredictManager], get_predictor: Callable[..., Any]) -> None:
    """Has `allennlp predict` use the classes and functions of `pipeline.command`."""
    predict._PredictManager = manager
    predict._get_predictor = get_predictor
