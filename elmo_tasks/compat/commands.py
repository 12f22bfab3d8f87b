"""Mends AllenNLP's own commands where they lose what they were given; each repair may be called twice."""

import argparse
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Optional

import torch
from allennlp.commands import build_vocab, count_instances, diff, evaluate
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import dump_metrics
from allennlp.data import DataLoader

from elmo_tasks.values import PositiveInt, check_value


def repair() -> None:
    """Applies every repair."""
    _let_evaluate_take_its_options()
    _let_diff_read_all_tensors()
    _let_overrides_count()


class _EvaluationLoader:
    """What `allennlp evaluate` makes its data loaders with."""

    @staticmethod
    def from_params(params: Params, **extras: Any) -> DataLoader:
        if "batch_size" in params and "batch_sampler" in params:
            params["batch_sampler"]["batch_size"] = params.pop("batch_size")
        return DataLoader.from_params(params=params, **extras)


def _let_evaluate_take_its_options() -> None:
    """
    `--batch-size` comes beside the config's `batch_sampler`, which a data loader refuses; 0 is ignored. A
    file that cannot be written is an error when all is computed, `--auto-names` alone writes nothing, and
    without a file the metrics are not shown.
    """
    stock = evaluate.evaluate_from_archive
    if hasattr(stock, "__wrapped__"):
        return
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def evaluate_from_archive(*args: Any, **options: Any) -> dict[str, Any]:
        call = signature.bind(*args, **options)
        call.apply_defaults()
        arguments = call.arguments
        check_value(arguments["batch_size"], Optional[PositiveInt], "--batch-size")
        for output, kind in (("metrics_output_file", "METRICS"), ("predictions_output_file", "PREDS")):
            if arguments["auto_names"] in (kind, "ALL"):
                # AllenNLP puts its names in the place of a name.
                arguments[output] = arguments[output] or kind
            elif arguments[output] is not None:
                _check_writable(arguments[output].split(","))
        metrics: dict[str, Any] = stock(*call.args, **call.kwargs)
        if arguments["metrics_output_file"] is None:
            dump_metrics(None, metrics, log=True)
        return metrics

    evaluate.evaluate_from_archive = evaluate_from_archive
    evaluate.DataLoader = _EvaluationLoader


def _check_writable(files: list[str]) -> None:
    for file in map(Path, files):
        if not file.parent.is_dir():
            raise ConfigurationError(f"{file}: found no folder {file.parent}, expected one for the output")
        if file.is_dir():
            raise ConfigurationError(f"{file}: found a folder, expected the name of a file to write")


def _let_diff_read_all_tensors() -> None:
    """
    It measures the distance of floats alone. A model with ELMo has the options of its biLM as bytes, and a
    biLM what is no tensor.
    """
    stock = diff.read_state_dict
    if hasattr(stock, "__wrapped__"):
        return

    @functools.wraps(stock)
    def read_state_dict(*args: Any, **options: Any) -> dict[str, torch.Tensor]:
        state = stock(*args, **options)
        tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
        return {
            name: value if value.is_floating_point() else value.double() for name, value in tensors.items()
        }

    diff.read_state_dict = read_state_dict


def _let_overrides_count() -> None:
    """`count-instances` and `build-vocab` take `--overrides`, and read the config without them."""
    for module, name in (
        (count_instances, "count_instances_from_args"),
        (build_vocab, "build_vocab_from_args"),
    ):
        command = getattr(module, name)
        if not hasattr(command, "__wrapped__"):
            setattr(module, name, _with_overrides(module, command))


def _with_overrides(module: ModuleType, command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def run(arguments: argparse.Namespace) -> Any:
        def read(path: str) -> Params:
            return Params.from_file(path, arguments.overrides)

        module.Params = SimpleNamespace(from_file=read)  # type: ignore[attr-defined]
        try:
            return command(arguments)
        finally:
            module.Params = Params  # type: ignore[attr-defined]

    return run
