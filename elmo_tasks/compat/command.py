"""
The command `allennlp`: what it shows and asks. An error of the user is one line on stderr and an exit code
other than 0. Where stderr is not a terminal, there are a few lines instead of progress bars, and one line for
each epoch.

`compat.OF_COMMAND` lists the changes, which the process of the command alone gets; a docstring says what
AllenNLP does without the change.
"""

import json
import logging
import multiprocessing
import os
import re
import select
import shlex
import sys
import tarfile
import time
from argparse import Action, ArgumentError, ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from traceback import walk_tb
from types import SimpleNamespace, TracebackType
from typing import Any

import torch
from allennlp import commands  # which Python has not yet put into its package
from allennlp.commands import diff, evaluate, predict, train
from allennlp.commands.train import TrainModel
from allennlp.common import FromParams, Params, util
from allennlp.common import logging as common_logging
from allennlp.common import params as params_module
from allennlp.common import tqdm as common_tqdm
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.data import vocabulary
from allennlp.models import archival
from allennlp.models.archival import CONFIG_NAME
from allennlp.training import GradientDescentTrainer, TrainerCallback, gradient_descent_trainer

from elmo_tasks.common import progress
from elmo_tasks.common.errors import ElmoError, did_you_mean, did_you_mean_path
from elmo_tasks.common.progress import duration
from elmo_tasks.common.strict_params import ConfigError, jsonnet_errors
from elmo_tasks.common.table import Table, counted
from elmo_tasks.compat.running import around, replace, wrap
from elmo_tasks.registration import MOVED

logger = logging.getLogger(__name__)

_BEST, _OF_CELLS = "best_validation_", ("confusion-", "precision-", "recall-")
"""The prefixes of the metrics of the best epoch, and of those that are too many to show."""
_FOLDS = "cross_validation_"
_VALIDATED = "validation_instances"
ARCHIVE = "model.tar.gz"


class Terminated(BaseException):
    """SIGTERM, which `except Exception` does not catch, as Ctrl-C."""


USER_ERRORS = (ConfigurationError, ElmoError, OSError, KeyboardInterrupt, Terminated)
"""Errors in the user's input or machine, and signals: not faults of the program."""
_OF_CONFIG = (TypeError, ValueError, KeyError, AttributeError, AssertionError)
"""The errors of AllenNLP and PyTorch that a wrong block of a config has."""
_CODES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Codes of a terminal, which a file of others may hold."""


def started() -> bool:
    """Returns whether this process is `allennlp`, `python -m allennlp`, or one that they spawn."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return "allennlp.__main__" in sys.modules or (main is not None and main.name == "allennlp.__main__")


def replace_sigterm() -> None:
    """SIGTERM raises an Exception, which `predict` takes for an error of a line, so that it continues."""
    replace(util, "SigTermReceived", Terminated)


@around(diff, "checkpoint_diff")
def compare_whole_numbers(
    stock: Callable[..., Any], first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], *rest: float
) -> Any:
    """
    `allennlp diff` fails on whole numbers in a state dict, such as the bytes of an ELMo's options, which have
    no distance in PyTorch.
    """
    states = ({name: value.float() for name, value in state.items()} for state in (first, second))
    return stock(*states, *rest)


@around(evaluate, "evaluate_from_archive")
def print_metrics(stock: Callable[..., dict[str, Any]], *args: Any, **options: Any) -> dict[str, Any]:
    """`allennlp evaluate` does not show its metrics."""
    metrics = stock(*args, **options)
    print(json.dumps(metrics, indent=2))
    return metrics


def suggest_names() -> None:
    """A misspelt command or registered name is answered by a list of all."""
    replace(commands.ArgumentParserWithDefaults, "_check_value", _check_value)
    wrap(Params, "pop_choice", _pop_choice)


def _check_value(self: ArgumentParser, action: Action, value: Any) -> None:
    try:
        ArgumentParser._check_value(self, action, value)
    except ArgumentError as error:
        if hint := did_you_mean(str(value), action.choices or ()):
            error.message = f"{value!r} is none of the choices{hint}"
        raise


def _pop_choice(
    stock: Callable[..., Any], self: Params, key: str, choices: list[Any], *args: Any, **options: Any
) -> Any:
    name = self.get(key)
    try:
        return stock(self, key, choices, *args, **options)
    except ConfigurationError as error:
        if hint := did_you_mean(str(name), choices):
            raise ConfigError(f"{name!r} is not registered{hint}", key=f"{self.history}{key}") from error
        raise


@around(commands, "import_module_and_submodules")
def name_missing_package(stock: Callable[..., None], package_name: str) -> None:
    """A package of --include-package that does not exist, or needs what has moved, is a traceback."""
    try:
        stock(package_name)
    except ModuleNotFoundError as error:
        if place := MOVED.get(error.name or ""):
            raise ConfigurationError(f"{package_name}: {error.name} is now {place}") from error
        if error.name != package_name.partition(".")[0]:
            raise
        raise ConfigurationError(f"--include-package: the package {error.name} does not exist") from error


@around(predict.Predict, "add_subparser")
def let_predict_take_its_options(stock: Callable[..., ArgumentParser], *args: Any) -> ArgumentParser:
    """`allennlp predict` runs one input at a time unless it is told otherwise, and reads no tables."""
    parser = stock(*args)
    parser.set_defaults(batch_size=None)
    about = "predict the texts in this column of a csv, tsv, JSON or Parquet file; twice for pairs"
    ArgumentParser.add_argument(parser, "--text", action="append", default=[], metavar="COLUMN", help=about)
    about = "leave out labels, entities and answers with a lower probability"
    ArgumentParser.add_argument(parser, "--min-probability", type=float, default=0.0, metavar="P", help=about)
    return parser


def replace_predict(run: Callable[[Namespace], None]) -> None:
    """
    `allennlp predict` loses the results before a bad line in a batch, and those that are not yet on the disk.
    A function of `pipeline.command` keeps them; the suite knows it.
    """
    replace(predict, "_predict", run)


def pack_archives_quickly() -> None:
    """
    Archives are packed at gzip's slowest level, which takes 7 seconds for 27 MB; the quickest level takes .5,
    and the archive has 7% more.
    """
    replace(archival, "tarfile", SimpleNamespace(open=partial(tarfile.open, compresslevel=1)))


def tell_how_training_ends() -> None:
    """
    `allennlp train` ends without its scores, the number of instances that they are of, the reason for its
    end and the next command; Ctrl-C does not say what is kept.
    """
    wrap(train, "train_model_from_file", _train_from_file)
    wrap(TrainModel, "finish", _finish)


def _train_from_file(stock: Callable[..., Any], *args: Any, **options: Any) -> Any:
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


def drop_false_alarms() -> None:
    """`train` warns of a vocabulary that the same run has written, and of `patience: null` in its config."""
    for module in (vocabulary, gradient_descent_trainer):
        replace(module.logger, "filters", [_is_alarm])


def _is_alarm(record: logging.LogRecord) -> bool:
    return not re.search("^vocabulary .* is not empty|patience was set to None", str(record.msg))


@contextmanager
def telling_how_to_recover(folder: Path) -> Iterator[None]:
    """Adds to Ctrl-C and SIGTERM what is kept of the training in the folder, and how to go on."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as error:
        if (folder / CONFIG_NAME).exists():
            archive = folder / ARCHIVE
            kept = f", the best of which is in {archive}" if archive.exists() else ""
            if epochs := len(list(folder.glob("metrics_epoch_*.json"))):
                error.add_note(f"epochs that are done: {epochs}{kept}")
            error.add_note("the same command continues with --recover, and starts over with --force")
        raise


def end_of_training(folder: Path) -> str:
    """Returns the scores of the best epoch or of the folds, the reason for the end, and the archive."""
    metrics = json.loads((folder / "metrics.json").read_text("utf-8"))
    archive = f"The archive is {folder / ARCHIVE}, its config {folder / CONFIG_NAME}."
    of = f" on {counted(metrics[_VALIDATED], 'validation instance')}" if _VALIDATED in metrics else ""
    if "folds" in metrics:
        table = _table_of(metrics, _BEST, (f"score{of}", "value"))
        shown = f"\n{table.markdown()}" if table.rows else ""
        return f"\n{_of_folds(metrics)}\n{shown}{archive}"
    if "epoch" not in metrics:  # nothing was left to train, or the trainer is of another kind
        return archive
    trainer = Params.from_file(folder / CONFIG_NAME)["trainer"]
    epoch, best = metrics["epoch"] + 1, metrics.get("best_epoch", metrics["epoch"]) + 1
    table = _table_of(metrics, _BEST, (f"score{of}", f"epoch {best}"))
    reason, patience = "it was told to stop", trainer.get("patience")
    if epoch >= trainer.get("num_epochs", 20):
        reason = "this was the last one"
    elif patience is not None and epoch - best >= patience:
        reason = f"{patience} in a row were no better (trainer.patience)"
    chosen = trainer.get("validation_metric", "-loss")
    names = " and ".join(name.lstrip("+-") for name in ([chosen] if isinstance(chosen, str) else chosen))
    scores = f"\n{table.markdown()}\nEpoch {best} has the best {names}. " if table.rows else "\n"
    return f"{scores}Training ended after epoch {epoch}: {reason}.\n{archive}"


def _table_of(metrics: dict[str, Any], prefix: str, columns: tuple[str, str]) -> Table:
    """Returns the scores with a prefix, without those that are too many to show."""
    table = Table(columns)
    for key, value in metrics.items():
        name = key.removeprefix(prefix)
        if key.startswith(prefix) and not name.startswith(_OF_CELLS) and isinstance(value, float):
            table.add(name, round(value, 4))
    return table


def _of_folds(metrics: dict[str, Any]) -> str:
    """Returns the scores of a cross-validation, and how they rise with the number of texts."""
    of = {key.removeprefix(_FOLDS): value for key, value in metrics.items() if key.startswith(_FOLDS)}
    score, name = ("micro_f1", "micro F1") if "micro_f1" in of else ("accuracy", "accuracy")
    lines = [
        f"{name} {of[score]:.3f} (+-{of[f'{score}_spread']:.3f} over {metrics['folds']} folds), "
        f"macro F1 {of['macro_f1']:.3f} (+-{of['macro_f1_spread']:.3f})"
    ]
    prefix = f"{score}_with_"
    shares = {int(key.removeprefix(prefix)): value for key, value in of.items() if key.startswith(prefix)}
    if shares:
        names, values = zip(*sorted({**shares, 100: of[score]}.items()), strict=True)
        numbers = ", ".join(f"{value:.3f}" for value in values)
        lines.append(f"{name} with {', '.join(map(str, names[:-1]))} and 100% of the texts: {numbers}")
    return "\n".join(lines)


def name_what_is_wrong_in_configs() -> None:
    """Errors in configs and overrides are tracebacks."""
    wrap(params_module, "parse_overrides", _parse_overrides)
    wrap(Params, "from_file", _from_file)


def _parse_overrides(stock: Callable[..., dict[str, Any]], *args: Any, **options: Any) -> dict[str, Any]:
    with jsonnet_errors("overrides"):
        return stock(*args, **options)


def _from_file(
    stock: Callable[..., Params], cls: type[Params], path: str | os.PathLike[str], *args: Any, **options: Any
) -> Params:
    """Raises a `ConfigError` for what is not Jsonnet, and for overrides that do not fit the config."""
    with jsonnet_errors(path):
        return stock(cls, path, *args, **options)


def end_in_one_line() -> None:
    """
    An error of the user ends a command in a traceback, and SIGTERM with exit code 1, after other processes
    of the run have trained to the end. `allennlp train` sets a hook of its own for errors.
    """
    replace(sys, "excepthook", _end_command)
    wrap(common_logging, "prepare_global_logging", _keep_user_errors)
    wrap(FromParams, "from_params", _note_block)


def _keep_user_errors(prepare: Callable[..., None], *args: Any, **options: Any) -> None:
    """Ends user errors as `_end_command` does; `allennlp train` by itself logs every traceback."""
    prepare(*args, **options)
    log = sys.excepthook

    def end(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        is_of_user = isinstance(error_of_block(error), USER_ERRORS)
        (_end_command if is_of_user else log)(kind, error, traceback)

    sys.excepthook = end


def _note_block(
    stock: Callable[..., Any], cls: type[FromParams], params: Any, *args: Any, **options: Any
) -> Any:
    """Notes the key of the innermost block whose object an error kept from being built."""
    try:
        return stock(cls, params, *args, **options)
    except (*_OF_CONFIG, ConfigurationError) as error:
        if not getattr(error, "block_of_config", ""):
            error.block_of_config = getattr(params, "history", "").rstrip(".")  # type: ignore[union-attr]
        raise


def error_of_block(error: BaseException) -> BaseException:
    """
    Returns the error of AllenNLP or PyTorch about a block of a config as a `ConfigError` with the key of the
    block, and the error of a package which AllenNLP misses; other errors, such as those of data, unchanged.
    """
    block = getattr(error, "block_of_config", "")
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    source = frames[-1].f_globals.get("__name__", "") if frames else ""
    if isinstance(error, ModuleNotFoundError) and source.startswith("allennlp."):
        return ConfigurationError(f"{source} needs the package {error.name}, which is not installed")
    in_data = any(frame.f_code.co_name == "iter_instances" for frame in frames)
    has_key = isinstance(error, ElmoError) or f"{block}." in str(error)
    if not block or has_key or in_data or not source.startswith(("allennlp.", "torch.optim.")):
        return error
    named = ConfigError(" ".join(map(str, error.args)) or str(error), key=block)
    named.__cause__ = error
    return named


def _end_command(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if isinstance(error, Terminated | KeyboardInterrupt):
        # Python would wait until the processes of a distributed training have trained to the end.
        for child in multiprocessing.active_children():
            child.terminate()
    user_error = error_of_block(error)
    if isinstance(user_error, USER_ERRORS):
        print_error(user_error)
    else:
        sys.__excepthook__(kind, error, traceback)
    if isinstance(error, Terminated):
        # Otherwise Python would end with 1, as after an error.
        raise SystemExit(exit_code(error))


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
    """
    Tells whether the reader of a pipe has ended, as `head` does when it has read enough. Windows, which has
    no `poll`, has another error for it.
    """
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(pipe, 0)
    return bool(poll.poll(0))


def exit_code(error: BaseException) -> int:
    return 130 if isinstance(error, KeyboardInterrupt) else 143 if isinstance(error, Terminated) else 1


def _message(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, Terminated):
        return "terminated"
    if isinstance(error, OSError) and error.strerror and error.filename:
        hint = did_you_mean_path(error.filename) if isinstance(error, FileNotFoundError) else ""
        return f"error: {error.filename}: {error.strerror}{hint}"
    return f"error: {error}"


def write_lines_to_files() -> None:
    """In a file, progress bars are thousands of lines, and nothing says how an epoch went."""
    replace(common_tqdm.Tqdm, "tqdm", staticmethod(_bar))
    callbacks = (*gradient_descent_trainer.DEFAULT_CALLBACKS, EpochLines)
    replace(gradient_descent_trainer, "DEFAULT_CALLBACKS", callbacks)


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
        if not (is_primary and progress.log_options()):
            return
        # Missing in a run that was resumed after the last batch of an epoch
        training = [f"training loss {metrics['training_loss']:.4g}"] if "training_loss" in metrics else []
        names = [name for _, name in trainer._metric_tracker.tracked_metrics]
        validation = [
            f"validation {name} {metrics[f'validation_{name}']:.4f}"
            for name in names
            if f"validation_{name}" in metrics
        ]
        if validation and metrics.get("best_epoch", epoch) != epoch:
            best = metrics[f"best_validation_{names[-1]}"]
            validation[-1] += f" (best {best:.4f}, epoch {metrics['best_epoch'] + 1})"
        current, last = epoch + 1, trainer._num_epochs
        took, left = duration(seconds), duration(seconds * (last - current))
        print(
            f"epoch {current} of {last}: {', '.join([*training, *validation, took])}; {left} left",
            file=sys.stderr,
        )
