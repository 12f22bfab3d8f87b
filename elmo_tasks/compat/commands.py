"""
AllenNLP's commands: `evaluate` and `predict`, the packages that a command imports, and its output. An error
of the user is one line on stderr and an exit code other than 0. Where stderr is not a terminal, there are a
few lines instead of progress bars, and one line for each epoch.

`compat.CHANGES` says what each function changes; each may be called twice.
"""

import argparse
import importlib
import inspect
import json
import logging
import multiprocessing
import os
import pkgutil
import re
import select
import sys
import time
from collections.abc import Callable, Collection, Sequence
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import walk_tb
from types import TracebackType
from typing import Any

import allennlp.commands
import torch
from allennlp.commands import build_vocab, count_instances, diff, evaluate, predict
from allennlp.common import FromParams, Params, plugins, util
from allennlp.common import logging as common_logging
from allennlp.common import tqdm as common_tqdm
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived, dump_metrics
from allennlp.data import DataLoader, Instance
from allennlp.evaluation import SimpleEvaluator
from allennlp.evaluation.serializers import SimpleSerializer
from allennlp.models import Model
from allennlp.training import GradientDescentTrainer, TrainerCallback, gradient_descent_trainer

from elmo_tasks.common import progress
from elmo_tasks.common.errors import ElmoError, did_you_mean_path
from elmo_tasks.common.files import refuse_inputs_as_outputs
from elmo_tasks.common.progress import duration
from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.compat.repairs import around, wrap
from elmo_tasks.data.fields import TagField

_PUBLIC = re.compile(r"\.(?!_|test)[^.]+$")
"""Submodules that are imported with their package."""


def let_evaluate_take_its_options() -> None:
    wrap(evaluate, "evaluate_from_archive", _evaluate_from_archive)
    wrap(SimpleEvaluator, "__call__", _evaluate)
    evaluate.DataLoader = _EvaluationLoader


class _EvaluationLoader:
    @staticmethod
    def from_params(params: Params, **extras: Any) -> DataLoader:
        if params.history == "data_loader.":  # of the training, for want of a validation_data_loader
            params.pop("batches_per_epoch", None)
        if "batch_size" in params and "batch_sampler" in params:
            params["batch_sampler"]["batch_size"] = params.pop("batch_size")
        for key in extras:  # the user's data, even if the config names others
            params.pop(key, None)
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


def _evaluate(
    stock: Callable[..., dict[str, Any]],
    self: SimpleEvaluator,
    model: Model,
    data_loader: DataLoader,
    batch_weight_key: str | None = None,
    metrics_output_file: str | None = None,
    predictions_output_file: str | None = None,
) -> dict[str, Any]:
    """
    Refuses data of other types than the model's. Writes a line for each record of a model of ours, in the
    order of the data, which a sampler changes.
    """
    instances = getattr(data_loader, "_instances", None) or []
    _check_types(model, instances)
    if predictions_output_file is None or not hasattr(model, "results"):
        return stock(self, model, data_loader, batch_weight_key, metrics_output_file, predictions_output_file)
    serializer = self.batch_serializer = _RecordSerializer(model)
    metrics = stock(self, model, data_loader, batch_weight_key, metrics_output_file, predictions_output_file)
    if instances and "metadata" in instances[0].fields:
        in_order = (serializer.lines[id(instance["metadata"].metadata)] for instance in instances)
        Path(predictions_output_file).write_text("".join(f"{line}\n" for line in in_order), "utf-8")
    return metrics


def _check_types(model: Model, instances: Sequence[Instance]) -> None:
    """Raises `ConfigurationError` if tags have no span of a type that the model finds."""
    fields = [
        each for instance in instances for each in instance.fields.values() if isinstance(each, TagField)
    ]
    tags = {tag for field in fields for tag in field.labels} - {"O"}
    known = model.vocab.get_token_to_index_vocabulary(fields[0]._label_namespace) if fields else {}
    if fields and tags.isdisjoint(known):
        own, theirs = (", ".join(sorted({tag[2:] for tag in each} - {""})) for each in (known, tags))
        option = """--overrides '{"dataset_reader.format": "predicates"}'"""
        remedy = f"for the predicates of files with roles, add {option}" if own == "V" else ""
        raise ConfigError(f"the model finds {own}, and the data have {theirs or 'no spans'}", remedy=remedy)


class _RecordSerializer(SimpleSerializer):
    """Makes a line for each record: its ids, its result, and the metadata of its instance."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.lines: dict[int, str] = {}
        """The lines by the identities of their metadata."""

    def __call__(self, batch: dict[str, Any], output_dict: dict[str, Any], *args: Any, **options: Any) -> str:
        results = self._model.results(output_dict)
        metadata = batch.get("metadata") or [None] * len(results)
        records = (
            {**getattr(about, "ids", {}), **result.to_json(), "metadata": about}
            for about, result in zip(metadata, results, strict=True)
        )
        lines = [json.dumps(util.sanitize(record)) for record in records]
        self.lines.update(zip(map(id, metadata), lines, strict=True))
        return "\n".join(lines)


def _check_data_and_outputs(arguments: dict[str, Any]) -> None:
    """Checks the arguments of `allennlp evaluate`; rewrites a path that would be taken for JSON."""
    data = _data(arguments["input_file"])
    arguments["input_file"] = json.dumps(data)[1:-1]
    files = (arguments["metrics_output_file"], arguments["predictions_output_file"])
    outputs = [name for names in files if names is not None for name in names.split(",")]
    for output in map(Path, outputs):
        if not output.parent.is_dir():
            raise ConfigurationError(f"{output}: the folder {output.parent} does not exist")
    sources = [arguments["archive_file"], arguments["weights_file"], *data]
    paths = [source for source in sources if isinstance(source, str | os.PathLike)]
    refuse_inputs_as_outputs(outputs, paths, error=ConfigurationError)
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


def let_overrides_count() -> None:
    wrap(count_instances, "count_instances_from_args", _with_overridden_config)
    wrap(build_vocab, "build_vocab_from_args", _with_overridden_config)


def _with_overridden_config(stock: Callable[..., None], arguments: argparse.Namespace) -> None:
    with TemporaryDirectory() as folder:
        config = Path(folder, "config.json")
        Params.from_file(arguments.param_path, arguments.overrides).to_file(str(config))
        arguments.param_path = str(config)
        stock(arguments)


@around(diff, "checkpoint_diff")
def compare_whole_numbers(
    stock: Callable[..., Any], first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], *rest: float
) -> Any:
    """The options of an ELMo are bytes, which have no distance in PyTorch."""
    states = ({name: value.float() for name, value in state.items()} for state in (first, second))
    return stock(*states, *rest)


def import_named_packages() -> None:
    """Serves `--include-package`, `.allennlp_plugins`, and the workers of a distributed run."""
    for module in (util, plugins):
        wrap(module, "import_module_and_submodules", _import_package)
    wrap(allennlp.commands, "import_module_and_submodules", _include)


def _import_package(stock: object, package_name: str, exclude: Collection[str] | None = None) -> None:
    """
    Imports a package with its public submodules, but of elmo_tasks the named module alone: the suite
    registers everything that can be registered, and others change AllenNLP, or need an extra.
    """
    if package_name.partition(".")[0] == "elmo_tasks":
        if exclude is None:  # AllenNLP's function passes a set when it calls itself for a submodule
            importlib.import_module(package_name)
        return
    left_out = set(exclude or ())
    if find_spec("checklist") is None:
        left_out.add("allennlp.confidence_checks.task_checklists")
    importlib.invalidate_caches()
    with util.push_python_path("."):
        names = [package_name]
        while names:
            module = importlib.import_module(names.pop())
            found = pkgutil.iter_modules(getattr(module, "__path__", ()), f"{module.__name__}.")
            public = filter(_PUBLIC.search, map(attrgetter("name"), found))
            names += sorted(set(public) - left_out, reverse=True)


def _include(stock: object, package_name: str) -> None:
    try:
        _import_package(stock, package_name)
    except ModuleNotFoundError as error:
        if error.name != package_name.partition(".")[0]:
            raise
        raise ConfigurationError(f"--include-package: the package {error.name} does not exist") from error


def replace_predict(manager: type[predict._PredictManager], get_predictor: Callable[..., Any]) -> None:
    """Has `allennlp predict` use the classes and functions of `pipeline.command`."""
    predict._PredictManager = manager
    predict._get_predictor = get_predictor


logger = logging.getLogger(__name__)

USER_ERRORS = (ConfigurationError, ElmoError, OSError, KeyboardInterrupt, SigTermReceived)
"""Errors in the user's input or machine, and signals: not faults of the program."""


_CODES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Codes of a terminal, which a file of others may hold."""


def print_error(error: BaseException) -> None:
    """Prints one line, with the notes of the error, and logs the traceback at debug level."""
    logger.debug("the error in full", exc_info=error)
    is_read = not (isinstance(error, BrokenPipeError) and _has_no_reader(sys.stdout.fileno()))
    if is_read:
        line = "; ".join([_message(error), *getattr(error, "__notes__", [])])
        print(_CODES.sub(lambda code: f"\\x{ord(code[0]):02x}", line), file=sys.stderr)
    if isinstance(error, OSError):
        # If stdout itself fails, Python would flush it once more when it ends.
        try:
            sys.stdout.flush()
        except OSError:
            is_read = False
        if not is_read:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _has_no_reader(pipe: int) -> bool:
    """Tells whether the reader of a pipe has ended, as `head` does when it has read enough."""
    poll = select.poll()
    poll.register(pipe, 0)
    return bool(poll.poll(0))


def exit_code(error: BaseException) -> int:
    return 130 if isinstance(error, KeyboardInterrupt) else 143 if isinstance(error, SigTermReceived) else 1


def _message(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, SigTermReceived):
        return "terminated"
    if isinstance(error, OSError) and error.strerror and error.filename:
        hint = did_you_mean_path(error.filename) if isinstance(error, FileNotFoundError) else ""
        return f"error: {error.filename}: {error.strerror}{hint}"
    return f"error: {error}"


def error_of_block(error: BaseException) -> BaseException:
    """
    Returns the error of AllenNLP or PyTorch about a block of a config as a `ConfigError` with the key of the
    block; other errors unchanged.
    """
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    block = ""
    for frame in frames:
        if frame.f_code is FromParams.from_params.__func__.__code__:
            block = getattr(frame.f_locals["params"], "history", "").rstrip(".") or block
        elif frame.f_code.co_name == "iter_instances":
            return error  # in data
    of_config = isinstance(error, TypeError | ValueError | KeyError | AttributeError | AssertionError)
    source = frames[-1].f_globals.get("__name__", "") if frames else ""
    if not (block and of_config and source.startswith(("allennlp.", "torch.optim."))):
        return error
    named = ConfigError(" ".join(map(str, error.args)), key=block)
    named.__cause__ = error
    return named


def _end_command(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if isinstance(error, SigTermReceived | KeyboardInterrupt):
        # Python would wait until the processes of a distributed training have trained to the end.
        for child in multiprocessing.active_children():
            child.terminate()
    user_error = error_of_block(error)
    if isinstance(user_error, USER_ERRORS):
        print_error(user_error)
    else:
        sys.__excepthook__(kind, error, traceback)
    if isinstance(error, SigTermReceived):
        # Otherwise Python would end with 1, as after an error.
        raise SystemExit(exit_code(error))


def is_command() -> bool:
    """Returns whether this process runs a command of AllenNLP."""
    program = Path(sys.argv[0] if sys.argv else "")
    return "allennlp" in (program.parent.name, program.stem)


def let_sigterm_through() -> None:
    """Takes SIGTERM out of what `except Exception` catches, as Ctrl-C is."""
    SigTermReceived.__bases__ = (BaseException,)


def end_in_one_line() -> None:
    """Has a command of AllenNLP end an error of the user in one line, if this process runs a command."""
    if is_command():
        sys.excepthook = _end_command
        wrap(common_logging, "prepare_global_logging", _keep_user_errors)


def _keep_user_errors(prepare: Callable[..., None], *args: Any, **options: Any) -> None:
    """Ends user errors as `_end_command` does; `allennlp train` by itself logs every traceback."""
    prepare(*args, **options)
    log = sys.excepthook

    def end(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        is_of_user = isinstance(error_of_block(error), USER_ERRORS)
        (_end_command if is_of_user else log)(kind, error, traceback)

    sys.excepthook = end


def write_lines_to_files() -> None:
    """Replaces AllenNLP's progress bars, and adds `EpochLines`."""
    common_tqdm.Tqdm.tqdm = staticmethod(_bar)
    callbacks = gradient_descent_trainer.DEFAULT_CALLBACKS
    if EpochLines not in callbacks:
        gradient_descent_trainer.DEFAULT_CALLBACKS = (*callbacks, EpochLines)


def _bar(*args: Any, **options: Any) -> Any:
    """Returns AllenNLP's bar of tqdm, or, in a file, a bar that writes lines now and then."""
    if common_logging.FILE_FRIENDLY_LOGGING:
        own = {"file": common_tqdm.TqdmToLogsWriter(), "mininterval": 2.0}
    else:
        own = progress.log_options() or {"file": common_tqdm.TqdmToLogsWriter()}
    return common_tqdm._tqdm(*args, **{**options, **own})


class EpochLines(TrainerCallback):
    """
    Prints a line after each epoch where stderr is a file, such as `epoch 3 of 40: training loss 22.07,
    validation f1 0.6521 (best 0.6733, epoch 2), 12 s; 7 min left`, with the time left for all epochs.
    """

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        super().on_start(trainer, is_primary, **kwargs)
        self._epoch_started = time.monotonic()
        self._validated = False

    def on_batch(
        self, trainer: GradientDescentTrainer, *batch: Any, is_training: bool, **kwargs: Any
    ) -> None:
        self._validated = self._validated or not is_training

    def on_epoch(
        self,
        trainer: GradientDescentTrainer,
        metrics: dict[str, Any],
        epoch: int,
        is_primary: bool = True,
        **kwargs: Any,
    ) -> None:
        seconds = time.monotonic() - self._epoch_started
        self._epoch_started = time.monotonic()
        validated, self._validated = self._validated, False
        if not (is_primary and progress.log_options()):
            return
        # Missing in a run that was resumed after the last batch of an epoch
        training = [f"training loss {metrics['training_loss']:.4g}"] if "training_loss" in metrics else []
        # After an epoch without a validation, as by `should_validate_callback`, the metrics are earlier ones.
        names = [name for _, name in trainer._metric_tracker.tracked_metrics if validated]
        validation = [f"validation {name} {metrics[f'validation_{name}']:.4f}" for name in names]
        if validation and metrics.get("best_epoch", epoch) != epoch:
            best = metrics[f"best_validation_{names[-1]}"]
            validation[-1] += f" (best {best:.4f}, epoch {metrics['best_epoch'] + 1})"
        current, last = epoch + 1, trainer._num_epochs
        took, left = duration(seconds), duration(seconds * (last - current))
        print(
            f"epoch {current} of {last}: {', '.join([*training, *validation, took])}; {left} left",
            file=sys.stderr,
        )
