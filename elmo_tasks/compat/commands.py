"""Mends AllenNLP's own commands where they lose what they were given; each repair may be called twice."""

import argparse
import functools
import inspect
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Optional

import torch
from allennlp.commands import build_vocab, count_instances, diff, evaluate, train
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import dump_metrics
from allennlp.data import DataLoader, Vocabulary
from allennlp.training.util import make_vocab_from_params

from elmo_tasks.common.files import check_sources_stay
from elmo_tasks.common.values import PositiveInt, check_value
from elmo_tasks.compat.wrapping import wrap

_OUTPUTS = {
    "--output-file": ("metrics_output_file", "METRICS"),
    "--predictions-output-file": ("predictions_output_file", "PREDS"),
}
"""Options of `allennlp evaluate` for files that it writes; and in `--auto-names`."""


def repair() -> None:
    """Applies every repair."""
    _let_evaluate_take_its_options()
    _let_diff_read_all_tensors()
    _let_overrides_count()
    _let_several_processes_recover_early()


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
    file that cannot be written is an error when all is computed, one that is read is overwritten, and
    `--auto-names` alone writes nothing. Without a file the metrics are not shown, and of data with the same
    name in two folders those of the first are lost. Data of which some are without gold annotation are
    called a fault of the model.
    """
    wrap(evaluate, "evaluate_from_archive", _evaluate_from_archive)
    evaluate.DataLoader = _EvaluationLoader


def _evaluate_from_archive(
    stock: Callable[..., dict[str, Any]], *args: Any, **options: Any
) -> dict[str, Any]:
    call = inspect.signature(stock).bind(*args, **options)
    call.apply_defaults()
    _check_and_complete(call.arguments)
    with _naming_missing_gold():
        metrics = stock(*call.args, **call.kwargs)
    if call.arguments["metrics_output_file"] is None:
        dump_metrics(None, metrics, log=True)
    return metrics


def _check_and_complete(arguments: dict[str, Any]) -> None:
    """
    Checks the arguments of `allennlp evaluate` before anything is read, and changes, in place, those that it
    would misread.
    """
    check_value(arguments["batch_size"], Optional[PositiveInt], "--batch-size")
    data = _data(arguments["input_file"])
    arguments["input_file"] = json.dumps(data)[1:-1]
    outputs: list[str] = []
    for option, (output, kind) in _OUTPUTS.items():
        if arguments["auto_names"] in (kind, "ALL"):
            # AllenNLP puts its names in the place of a name.
            arguments[output] = arguments[output] or kind
        elif arguments[output] is not None:
            outputs += _names_of_each(arguments[output], option, number=len(data))
    _check_writable(outputs)
    sources = [arguments["archive_file"], arguments["weights_file"], *data]
    paths = [source for source in sources if isinstance(source, str | os.PathLike)]
    check_sources_stay(outputs, paths, error=ConfigurationError)
    if arguments["metrics_output_file"] is None:
        _check_names(data)


def _names_of_each(text: str, option: str, *, number: int) -> list[str]:
    """The names in an option, of which each of the data has one."""
    names = text.split(",")
    if len(names) != number:
        raise ConfigurationError(
            f"{option}: found {len(names)} names, expected {number}, one for each of the data"
        )
    return names


@contextmanager
def _naming_missing_gold() -> Iterator[None]:
    """AllenNLP calls it a fault of the model."""
    try:
        yield
    except RuntimeError as error:
        if "only sometimes produced a loss" not in str(error):
            raise
        raise ConfigurationError(
            "found some data with gold annotation and some without, expected it in all that are scored"
        ) from error


def _data(text: str) -> list[Any]:
    """The data that `allennlp evaluate` is given: JSON values with commas, or paths."""
    if os.path.exists(text):
        return [text]
    try:
        return list(json.loads(f"[{text}]"))
    except json.JSONDecodeError:
        return text.split(",")


def _check_names(data: list[Any]) -> None:
    """AllenNLP tells metrics of several data apart by the names of their files."""
    count = Counter(Path(path).stem for path in data if isinstance(path, str))
    if twice := [name for name, times in count.items() if times > 1]:
        raise ConfigurationError(
            f"found several data with the name {twice[0]}, expected --output-file with one name for each"
        )


def _check_writable(files: list[str]) -> None:
    if len(set(files)) < len(files):
        raise ConfigurationError(f"found one output twice in {', '.join(files)}, expected different files")
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
    wrap(diff, "read_state_dict", _read_state_dict)


def _read_state_dict(
    stock: Callable[..., dict[str, Any]], *args: Any, **options: Any
) -> dict[str, torch.Tensor]:
    state = stock(*args, **options)
    tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    return {name: value if value.is_floating_point() else value.double() for name, value in tensors.items()}


def _let_overrides_count() -> None:
    """`count-instances` and `build-vocab` take `--overrides`, and read the config without them."""
    for module, name in (
        (count_instances, "count_instances_from_args"),
        (build_vocab, "build_vocab_from_args"),
    ):
        wrap(module, name, functools.partial(_with_overrides, module))


def _with_overrides(module: ModuleType, stock: Callable[..., Any], arguments: argparse.Namespace) -> Any:
    def read(path: str) -> Params:
        return Params.from_file(path, arguments.overrides)

    module.Params = SimpleNamespace(from_file=read)  # type: ignore[attr-defined]
    try:
        return stock(arguments)
    finally:
        module.Params = Params  # type: ignore[attr-defined]


def _let_several_processes_recover_early() -> None:
    """
    `train --recover` of a distributed run reads the vocabulary from its folder, where it is not, or cut off,
    if the kill came before all was read; a run of one process makes it anew.
    """
    wrap(train, "train_model", _train_model)


def _train_model(
    stock: Callable[..., Any],
    params: Params,
    serialization_dir: str | os.PathLike[str],
    *args: Any,
    **options: Any,
) -> Any:
    def read_or_make(vocabulary: str) -> Vocabulary:
        if any(Path(serialization_dir).glob("training_state_*.th")):
            return Vocabulary.from_files(vocabulary)
        shutil.rmtree(vocabulary, ignore_errors=True)
        return make_vocab_from_params(params.duplicate(), serialization_dir)

    train.Vocabulary = SimpleNamespace(from_files=read_or_make)
    try:
        return stock(params, serialization_dir, *args, **options)
    finally:
        train.Vocabulary = Vocabulary
