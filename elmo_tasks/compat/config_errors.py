"""Errors about configs and the command line: wrong Jsonnet, and misspelt commands, classes and keys."""

import argparse
import logging
import os
import re
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter
from textwrap import shorten
from typing import Annotated, Any, Optional, Union

import torch
from allennlp.commands import ArgumentParserWithDefaults, find_learning_rate
from allennlp.commands.evaluate import Evaluate
from allennlp.commands.predict import Predict
from allennlp.commands.train import TrainModel
from allennlp.common import Params, from_params, registrable, util
from allennlp.common import params as params_module
from allennlp.common.checks import ConfigurationError
from allennlp.common.from_params import FromParams
from allennlp.common.util import is_distributed
from allennlp.data import Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.nn import InitializerApplicator, RegularizerApplicator
from allennlp.training import GradientDescentTrainer
from allennlp.training.metric_tracker import MetricTracker

from elmo_tasks.archives.checking import is_opening
from elmo_tasks.common.devices import gpu_index, read_gpu
from elmo_tasks.common.errors import did_you_mean, nearest_name
from elmo_tasks.common.files import local_or_bundled
from elmo_tasks.common.strict_params import block_errors
from elmo_tasks.common.values import (
    Name,
    NonNegativeInt,
    OneOf,
    PositiveFloat,
    PositiveInt,
    Range,
    check_value,
)
from elmo_tasks.compat.repairs import wrap

logger = logging.getLogger(__name__)

_SEED = Annotated[int, Range(0, 2**32 - 1)]
"""A seed that NumPy takes."""
_DATA = Annotated[str, OneOf(("train", "validation", "test"))]
_VALUES: dict[type, dict[str, Any]] = {
    TrainModel: {"datasets_for_vocab_creation": Optional[list[_DATA]]},
    Vocabulary: {"min_count": Optional[dict[str, NonNegativeInt]]},
    MultiProcessDataLoader: {
        "batch_size": Optional[PositiveInt],
        "batches_per_epoch": Optional[PositiveInt],
        "max_instances_in_memory": Optional[PositiveInt],
        "num_workers": NonNegativeInt,
    },
    GradientDescentTrainer: {
        "num_epochs": PositiveInt,
        "patience": Optional[PositiveInt],
        "validation_metric": Union[Name, list[Name]],
        "num_gradient_accumulation_steps": Optional[PositiveInt],
        "grad_norm": Union[bool, PositiveFloat, None],
        "grad_clipping": Optional[PositiveFloat],
    },
}
"""The types of keys of AllenNLP's own blocks, of which it takes impossible values, or says too little."""
_RENAMED = {
    "iterator": "data_loader",
    "validation_iterator": "validation_data_loader",
    "lazy": "max_instances_in_memory of data_loader",
    "shuffle": "shuffle of data_loader",
    "similarity_function": "matrix_attention",
    "num_serialized_models_to_keep": "keep_most_recent_by_count of the checkpointer",
    "model_save_interval": "save_every_num_seconds of the checkpointer",
    "summary_interval": "summary_interval of the callback tensorboard",
    "should_log_learning_rate": "should_log_learning_rate of the callback tensorboard",
    "should_log_parameter_statistics": "should_log_parameter_statistics of the callback tensorboard",
}
"""Keys of earlier versions of AllenNLP, and their replacements in 2.10.1."""
_UNKNOWN_KEY = re.compile(r"got an unexpected keyword argument '(\w+)'")
"""The words of Python, for a key of a class of AllenNLP that passes its keys on, such as a reader."""


def install() -> None:
    """Makes these errors clear, with the nearest right name; it may be called twice."""
    # argparse: commands, verbs, choices of options
    ArgumentParserWithDefaults._check_value = _check_value
    for command in (Evaluate, Predict):
        wrap(command, "add_subparser", _add_subparser)
    # `Registrable.by_name`, which by itself suggests only names that differ in one letter
    registrable._get_suggestion = nearest_name
    wrap(Params, "pop_choice", _pop_choice)
    wrap(from_params, "create_kwargs", _create_kwargs)
    wrap(FromParams, "from_params", _from_params)
    wrap(MetricTracker, "combined_score", _combined_score)
    wrap(GradientDescentTrainer, "train", _train)
    for module in (util, find_learning_rate):
        wrap(module, "prepare_environment", _prepare_environment)
    # Configs and overrides
    if find_spec("_jsonnet") is None and find_spec("_gojsonnet") is not None:
        # The same functions, with wheels for ARM Linux, where jsonnet has none.
        for name in ("evaluate_file", "evaluate_snippet"):
            setattr(params_module, name, getattr(import_module("_gojsonnet"), name))
    wrap(params_module, "cached_path", _cached_path)
    wrap(params_module, "evaluate_file", _evaluate_file)
    wrap(params_module, "evaluate_snippet", _evaluate_snippet)
    wrap(params_module, "with_overrides", _with_overrides)


def _cached_path(stock: Callable[..., str], path: str | os.PathLike[str], *args: Any, **options: Any) -> str:
    """Finds a config of the user, or of the project, without the clients of all stores."""
    path = local_or_bundled(path)
    return path if os.path.exists(path) else stock(path, *args, **options)


def _evaluate_file(stock: Callable[..., str], path: str, **options: Any) -> str:
    return _json_object(path, lambda: stock(path, **options))


def _evaluate_snippet(stock: Callable[..., str], path: str, text: str, **options: Any) -> str:
    return _json_object(f"the overrides {text!r}", lambda: stock(path, text, **options))


def _json_object(what: str, evaluate: Callable[[], str]) -> str:
    """Returns the JSON of Jsonnet, which by itself raises a `RuntimeError`, or may be no object."""
    try:
        text = evaluate()
    except RuntimeError as error:
        reason = "; ".join(filter(None, map(str.strip, str(error).splitlines()[:2])))
        raise ConfigurationError(f"{what}: found no Jsonnet ({reason})") from error
    if not text.startswith("{"):
        raise ConfigurationError(f"{what}: found {shorten(text, 80)}, expected an object")
    return text


def _with_overrides(
    stock: Callable[..., Any], original: Any, overrides_dict: dict[str, Any], prefix: str = ""
) -> Any:
    """Adds the nearest key to the error; AllenNLP calls the function for each part of a config."""
    try:
        return stock(original, overrides_dict, prefix)
    except (ValueError, KeyError) as error:
        keys_of_config = list(map(str, original)) if isinstance(original, dict) else []
        keys = [key.partition(".")[0] for key in overrides_dict]
        hints = (did_you_mean(key, keys_of_config) for key in keys if key not in keys_of_config)
        raise ConfigurationError(f"{error}{next(filter(None, hints), '')}") from error


def _prepare_environment(stock: Callable[..., None], params: Params) -> None:
    with block_errors():
        for key in ("random_seed", "numpy_seed", "pytorch_seed"):
            seed = params.get(key, 0)
            # `std.extVar` gives a text, which AllenNLP takes for a number.
            is_number = isinstance(seed, str) and seed.isdecimal()
            check_value(int(seed) if is_number else seed, Optional[_SEED], key)
    stock(params)


def _check_value(self: argparse.ArgumentParser, action: argparse.Action, value: Any) -> None:
    try:
        super(ArgumentParserWithDefaults, self)._check_value(action, value)
    except argparse.ArgumentError as error:
        error.message += did_you_mean(value, action.choices or ())
        if "embed" in (action.choices or ()) and os.path.exists(value):
            error.message += "; `allennlp elmo IN OUT` of AllenNLP 0.9 is `allennlp elmo embed IN OUT`"
        raise


def _add_subparser(stock: Callable[..., argparse.ArgumentParser], *args: Any) -> argparse.ArgumentParser:
    """Lets a command of AllenNLP's take a device by all the names that ours take."""
    parser = stock(*args)
    action = parser._option_string_actions["--device"] = parser._option_string_actions["--cuda-device"]
    action.option_strings, action.type = ["--device", "--cuda-device"], read_gpu
    return parser


def _pop_choice(
    stock: Callable[..., Any], self: Params, key: str, choices: list[Any], *args: Any, **options: Any
) -> Any:
    """Names the nearest registered name; AllenNLP lists all of them."""
    value = self.params.get(key)
    try:
        return stock(self, key, choices, *args, **options)
    except ConfigurationError as error:
        if hint := did_you_mean(str(value), choices):
            error.message = f"{self.history}{key}: found {value!r}, which is no registered name{hint}"
        raise


def _create_kwargs(
    stock: Callable[..., Any], constructor: Any, cls: type, params: Params, **extras: Any
) -> Any:
    """
    Adds to an error a hint for each key that the class does not have. Our own classes are checked before
    (`StrictParams`). AllenNLP's trainer drops unknown keys, so that `num_epoch` would train 20 epochs.
    """
    parameters = from_params.infer_params(cls, constructor)
    right_keys = set(parameters) - {"self"}
    hints = {key: _hint(key, right_keys) for key in params if key not in right_keys}
    unknown = {key: f"{params.history}{key} is no key of {cls.__name__}{hint}" for key, hint in hints.items()}
    try:
        if cls is GradientDescentTrainer:
            for key, message in unknown.items():
                if hints[key] and key not in _RENAMED:
                    raise ConfigurationError(message)
                logger.warning("%s; here it has no effect", message)
        _check_values(params, _VALUES.get(cls, {}))
        _check_regexes(params, parameters)
        if check := _CHECKS.get(cls):
            check(params)
        return stock(constructor, cls, params, **extras)
    except ConfigurationError as error:
        for key, message in unknown.items():
            if hints[key] and message != error.message:
                error.add_note(message)
        raise


def _hint(key: str, right_keys: Collection[str]) -> str:
    if key in _RENAMED:
        return f"; it is now {_RENAMED[key]}"
    return did_you_mean(key, right_keys)


def _from_params(stock: Callable[..., Any], cls: type, params: Any, *args: Any, **options: Any) -> Any:
    """Names a key that no constructor takes, where keys are passed on; by itself it is a TypeError."""
    keys = list(params) if isinstance(params, Params) else []
    try:
        return stock(cls, params, *args, **options)
    except TypeError as error:
        match = _UNKNOWN_KEY.search(str(error))
        if match is None or (key := match[1]) not in keys or is_opening():
            raise
        right_keys = from_params.infer_params(cls, options.get("constructor_to_inspect"))
        if key in right_keys:  # the fault of a constructor
            raise
        hint = _hint(key, right_keys)
        raise ConfigurationError(f"{params.history}{key} is no key of {cls.__name__}{hint}") from error


def _check_regexes(params: Params, parameters: Mapping[str, Parameter]) -> None:
    for key, kind in (("initializer", InitializerApplicator), ("regularizer", RegularizerApplicator)):
        takes_it = key in parameters and from_params.remove_optional(parameters[key].annotation) is kind
        if takes_it and isinstance(params.get(key), list):
            raise ConfigurationError(
                f'{params.history}{key}: found a list, as in AllenNLP 0.9, expected {{"regexes": [...]}}'
            )


def _check_values(params: Params, kinds: dict[str, Any]) -> None:
    with block_errors():
        for key, kind in kinds.items():
            if key in params:
                check_value(params[key], kind, f"{params.history}{key}")


def _check_data_loader(params: Params) -> None:
    if not params.get("batch_sampler"):
        return
    for key in ("batch_size", "shuffle", "drop_last"):
        if params.get(key):
            raise ConfigurationError(
                f"{params.history}{key}: found {params[key]} beside a batch_sampler, expected the key "
                f"{params.history}batch_sampler.{key}"
            )


def _check_trainer(params: Params) -> None:
    device = params.get("cuda_device")
    if isinstance(device, list):
        raise ConfigurationError(
            f"{params.history}cuda_device: found {device}, expected one device; several are "
            f'"distributed": {{"cuda_devices": {device}}}, beside "trainer"'
        )
    with block_errors():
        if device is not None:
            params["cuda_device"] = gpu_index(device, option=f"{params.history}cuda_device")
    metrics = params.get("validation_metric", "-loss")
    for metric in [metrics] if isinstance(metrics, str) else metrics:
        if not metric.startswith(("+", "-")):
            raise ConfigurationError(
                f"{params.history}validation_metric: found {metric!r}, expected '+{metric}', where more is "
                f"better, or '-{metric}'"
            )
    if params.get("grad_norm", False) is None:
        params["grad_norm"] = False  # AllenNLP's word for none
    if params.get("use_amp", False) and not torch.cuda.is_available():
        raise ConfigurationError(
            f"{params.history}use_amp: found true, which needs a GPU; PyTorch finds none here"
        )


def _combined_score(stock: Callable[..., float], self: MetricTracker, metrics: dict[str, float]) -> float:
    for _, name in self.tracked_metrics:
        if name not in metrics:
            raise _unknown_metric(name, metrics)
    return stock(self, metrics)


def _train(stock: Callable[..., Any], self: GradientDescentTrainer) -> Any:
    """
    Checks the names of the metrics that choose the best epoch of a model of ours; of other models they are
    known after an epoch. A metric of a label, such as `f1-PER`, and those of a biLM come with the data. A
    training that diverges ends in an error with its epoch and batch.
    """
    of_ours = type(self.model).__module__.startswith("elmo_tasks.")
    if self._validation_data_loader is not None and of_ours and (own := self.model.get_metrics(reset=True)):
        metrics = {*own, "loss", "reg_loss"}
        for _, name in self._metric_tracker.tracked_metrics:
            if metrics.isdisjoint((name, name.partition("-")[0])):
                raise _unknown_metric(name, metrics)
    try:
        return stock(self)
    except ValueError as error:
        if str(error) != "nan loss encountered":
            raise
        raise ConfigurationError(
            f"epoch {self._epochs_completed + 1}, batch {self._batches_in_epoch_completed + 1}: found a loss "
            "that is no number, expected a training that does not diverge: take a lower "
            "trainer.optimizer.lr, or clip the gradients by trainer.grad_norm"
        ) from error


def _unknown_metric(name: str, metrics: Collection[str]) -> ConfigurationError:
    return ConfigurationError(
        f"validation_metric: found {name!r}, expected one of {', '.join(sorted(metrics))}"
        f"{did_you_mean(name, metrics)}"
    )


def _check_train_model(params: Params) -> None:
    if not params.get("evaluate_on_test", False):
        return
    if not params.get("test_data_path"):
        raise ConfigurationError(
            "evaluate_on_test: found true without a test_data_path; expected the path of the test data"
        )
    if is_distributed():
        raise ConfigurationError(
            "evaluate_on_test: found true in a run of several processes, where only the first would "
            "evaluate; expected false, and `allennlp evaluate` after the run"
        )


_CHECKS: dict[type, Callable[[Params], None]] = {
    TrainModel: _check_train_model,
    MultiProcessDataLoader: _check_data_loader,
    GradientDescentTrainer: _check_trainer,
}
