"""
Bugs of AllenNLP's own commands. `compat.CHANGES` says what each function repairs; each may be called twice.
"""

import inspect
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Optional

import allennlp.commands
import torch
from allennlp.commands import diff, evaluate, predict
from allennlp.common import Params, plugins, util
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import dump_metrics
from allennlp.data import DataLoader

from elmo_tasks.common.files import check_sources_stay
from elmo_tasks.common.values import PositiveInt, check_value
from elmo_tasks.compat.repairs import wrap

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
    """The class with which `allennlp evaluate` makes its data loaders."""

    @staticmethod
    def from_params(params: Params, **extras: Any) -> DataLoader:
        if "batch_size" in params and "batch_sampler" in params:
            params["batch_sampler"]["batch_size"] = params.pop("batch_size")
        return DataLoader.from_params(params=params, **extras)


def _evaluate_from_archive(
    stock: Callable[..., dict[str, Any]], *args: Any, **options: Any
) -> dict[str, Any]:
    call = inspect.signature(stock).bind(*args, **options)
    call.apply_defaults()
    _check_and_complete(call.arguments)
    with _naming_what_is_missing(call.arguments["batch_weight_key"]):
        metrics = stock(*call.args, **call.kwargs)
    if call.arguments["metrics_output_file"] is None:
        dump_metrics(None, metrics, log=True)
    return metrics


def _check_and_complete(arguments: dict[str, Any]) -> None:
    """
    Checks the arguments of `allennlp evaluate` before anything is read, and rewrites, in place, a path that
    AllenNLP would take for JSON.
    """
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
        count = Counter(Path(path).stem for path in data if isinstance(path, str))
        if repeated := [name for name, times in count.items() if times > 1]:
            raise ConfigurationError(
                f"found several data with the name {repeated[0]}, expected --output-file with one name for "
                "each"
            )


def _data(text: str) -> list[Any]:
    """Returns the data for `allennlp evaluate`: JSON values with commas between them, or paths."""
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


@contextmanager
def _naming_what_is_missing(weight: str | None) -> Iterator[None]:
    """AllenNLP blames the model if only some of the data have gold annotation, or it has no such output."""
    try:
        yield
    except RuntimeError as error:
        if "only sometimes produced a loss" not in str(error):
            raise
        raise ConfigurationError(
            "found some data with gold annotation and some without, expected it in all that are scored"
        ) from error
    except KeyError as error:
        if not weight or error.args != (weight,):
            raise
        raise ConfigurationError(
            f"--batch-weight-key: found {weight!r}, which the model does not return; expected an output "
            "that is one number a batch"
        ) from error


def let_diff_read_all_tensors() -> None:
    wrap(diff, "read_state_dict", _read_state_dict)


def _read_state_dict(
    stock: Callable[..., dict[str, Any]], *args: Any, **options: Any
) -> dict[str, torch.Tensor]:
    state = stock(*args, **options)
    tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    return {name: value if value.is_floating_point() else value.double() for name, value in tensors.items()}


def import_named_packages() -> None:
    """Serves `--include-package`, `.allennlp_plugins`, and the workers of a distributed run."""
    for module in (util, allennlp.commands, plugins):
        module.import_module_and_submodules = _import_package


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
