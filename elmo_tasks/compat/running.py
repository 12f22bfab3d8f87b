"""
What AllenNLP needs to run at all, on current Python, PyTorch and transformers, and on any system.

`compat.TO_RUN` lists the changes; a docstring says what AllenNLP does without the change.
"""

import functools
import inspect
import logging
import multiprocessing
import os
import random
import re
import shutil
import signal
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy
import torch
from allennlp.common import cached_transformers, util
from allennlp.common import params as params_module
from allennlp.common.tqdm import Tqdm
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.tokenizers import PretrainedTransformerTokenizer, SpacyTokenizer
from allennlp.models.archival import Archive
from allennlp.modules.token_embedders import TokenCharactersEncoder
from allennlp.nn.parallel import ddp_accelerator
from allennlp.predictors import Predictor
from allennlp.training import gradient_descent_trainer
from allennlp.training.learning_rate_schedulers import ReduceOnPlateauLearningRateScheduler
from torch.optim.lr_scheduler import ReduceLROnPlateau

from elmo_tasks.archives.trust import is_opening_untrusted, refuse_to_fetch
from elmo_tasks.common.errors import did_you_mean_path
from elmo_tasks.common.files import did_you_mean_config, local_or_bundled
from elmo_tasks.common.machine import end_with_parent

logger = logging.getLogger(__name__)


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """
    Replaces the function, method or class method `name` of a module or class of AllenNLP. `around` gets the
    original, its `__wrapped__`, and then its arguments.
    """
    stock = vars(owner)[name]
    is_classmethod = isinstance(stock, classmethod)
    function = stock.__func__ if is_classmethod else stock

    @functools.wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        return around(function, *args, **options)

    replace(owner, name, classmethod(wrapped) if is_classmethod else wrapped)


def replace(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)


def around(owner: Any, name: str) -> Callable[[Callable[..., Any]], Callable[[], None]]:
    """Decorates a function that `wrap` puts around another one, when the decorated function is called."""
    return lambda function: functools.partial(wrap, owner, name, function)


class _LoggingPlateau(ReduceLROnPlateau):
    """PyTorch's scheduler with the parameter `verbose`, which logs each change of the learning rate."""

    def __init__(self, *args: Any, verbose: bool = False, **options: Any) -> None:
        self.verbose = verbose
        super().__init__(*args, **options)

    def step(self, metrics: Any, epoch: Any = None) -> None:  # type: ignore[override]
        before = [group["lr"] for group in self.optimizer.param_groups]
        super().step(metrics, epoch)
        after = [group["lr"] for group in self.optimizer.param_groups]
        if self.verbose and after != before:
            logger.info("reduce_on_plateau: learning rate %s -> %s", before, after)


@around(ReduceOnPlateauLearningRateScheduler, "__init__")
def restore_reduce_on_plateau(
    stock: Callable[..., None], self: Any, optimizer: torch.optim.Optimizer, **options: Any
) -> None:
    """PyTorch 2.7 dropped `verbose`, which AllenNLP passes on: a TypeError."""
    # As AllenNLP's own, with the same defaults
    super(ReduceOnPlateauLearningRateScheduler, self).__init__(_LoggingPlateau(optimizer, **options))


def allow_numpy_numbers_in_checkpoints() -> None:
    """
    Since PyTorch 2.6 `torch.load` refuses NumPy's float64 and bool, which a training state holds. These types
    cannot run code.
    """
    # The function that pickle calls for a number
    number_from_bytes: Any = numpy.float64(0).__reduce__()[0]
    torch.serialization.add_safe_globals(
        [number_from_bytes, numpy.dtype, numpy.dtypes.Float64DType, numpy.dtypes.BoolDType]
    )


def take_current_names_of_amp() -> None:
    """AllenNLP enters `torch.cuda.amp.autocast`, a deprecated name, for each batch: a warning each time."""
    amp = SimpleNamespace(
        autocast=lambda enabled: torch.amp.autocast("cuda", enabled=enabled),
        GradScaler=functools.partial(torch.amp.GradScaler, "cuda"),
    )
    for module in (gradient_descent_trainer, ddp_accelerator):
        replace(module, "amp", amp)


def repair_loader_processes() -> None:
    """
    Since Python 3.11.5 a spawned worker of a data loader does not start: its lock is made for forks. A worker
    seeds `random` by chance, so that the order of its batches differs from run to run. A forked one gets the
    SIGTERM handler of `allennlp`, and outlives a killed run, since it holds both ends of the pipe that should
    tell it. Windows has no forks.
    """
    for name in ("_start_instance_workers", "_start_batch_workers"):
        wrap(MultiProcessDataLoader, name, _with_lock_and_seed)
    for name in ("_instance_worker", "_batch_worker"):
        wrap(MultiProcessDataLoader, name, _prepared)
    wrap(MultiProcessDataLoader, "_join_workers", _join_alive_workers)
    if "fork" not in multiprocessing.get_all_start_methods():  # Windows
        wrap(MultiProcessDataLoader, "__init__", _spawn_in_place_of_fork)


def _with_lock_and_seed(
    start: Callable[..., Any], self: MultiProcessDataLoader, queue: Any, context: Any
) -> Any:
    self.worker_seed = random.getrandbits(64)
    return start(self, queue, _WithOwnLock(context))


class _WithOwnLock:
    """A context whose processes share a lock that it made, for their bars. AllenNLP makes one for forks."""

    def __init__(self, context: Any) -> None:
        self._context, self._lock = context, context.RLock()
        self.Pipe, self.Process = context.Pipe, self._make_process

    def _make_process(self, *, target: Any, args: tuple[Any, ...], daemon: bool) -> Any:
        Tqdm.set_lock(self._lock)
        worker_id, queue, _, receiver = args
        return self._context.Process(
            target=target, args=(worker_id, queue, self._lock, receiver), daemon=daemon
        )


def _spawn_in_place_of_fork(
    stock: Callable[..., None], *args: Any, start_method: str = "fork", **options: Any
) -> None:
    stock(*args, start_method="spawn" if start_method == "fork" else start_method, **options)


def _prepared(work: Callable[..., None], self: MultiProcessDataLoader, worker_id: int, *args: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    random.seed(self.worker_seed + worker_id)
    work(self, worker_id, *args)


def _join_alive_workers(
    join: Callable[..., None], self: MultiProcessDataLoader, workers: Any, queue: Any, channels: Any
) -> None:
    pairs = zip(workers, channels, strict=True)
    join(self, workers, queue, [channel for worker, channel in pairs if worker.is_alive()])


@around(TokenCharactersEncoder, "__init__")
def pickle_characters_encoder(
    stock: Callable[..., None], self: TokenCharactersEncoder, *args: Any, **options: Any
) -> None:
    """A model that reads characters without dropout cannot be pickled: its encoder has a lambda."""
    stock(self, *args, **options)
    if not isinstance(self._dropout, torch.nn.Module):
        self._dropout = torch.nn.Identity()


@around(gradient_descent_trainer, "hardlink_or_copy")
def copy_where_links_fail(stock: Callable[..., None], source: str, dest: str) -> None:
    """
    A training ends after its first epoch in a folder without hard links, such as a mounted drive: AllenNLP
    copies after two errors of many alone.
    """
    try:
        stock(source, dest)
    except OSError:
        os.replace(shutil.copy(source, f"{dest}.partial"), dest)


@around(Predictor, "from_archive")
def find_predictor_of_loaded_model(
    stock: Callable[..., Predictor],
    cls: type[Predictor],
    archive: Archive,
    predictor_name: str | None = None,
    *args: Any,
    **options: Any,
) -> Predictor:
    """A model of type from_archive has no predictor: AllenNLP asks the class `Model` for it."""
    return stock(cls, archive, predictor_name or archive.model.default_predictor, *args, **options)


def tokenize_for_transformers() -> None:
    """
    Nothing named `pretrained_transformer` works: transformers makes no tokenizer with the argument
    `add_special_tokens`, and since 5.0 no tokenizer has all methods that AllenNLP calls.
    """
    wrap(cached_transformers, "get_tokenizer", _get_tokenizer)
    wrap(PretrainedTransformerTokenizer, "__init__", _make_transformer_tokenizer)


def _get_tokenizer(stock: Callable[..., Any], model_name: str, **options: Any) -> Any:
    # AllenNLP also passes it to each call that adds such tokens.
    options.pop("add_special_tokens", None)
    tokenizer = installed_transformer(stock, model_name, **options)
    if not hasattr(tokenizer, "encode_plus"):
        tokenizer.encode_plus = tokenizer.__call__
    return tokenizer


def _make_transformer_tokenizer(
    stock: Callable[..., None], self: PretrainedTransformerTokenizer, *args: Any, **options: Any
) -> None:
    stock(self, *args, **options)
    if not hasattr(self.tokenizer, "build_inputs_with_special_tokens"):
        start, end = (
            [token.text_id for token in tokens]
            for tokens in (self.single_sequence_start_tokens, self.single_sequence_end_tokens)
        )
        self.tokenizer.build_inputs_with_special_tokens = functools.partial(_enclose, start, end)


def _enclose(start: list[int], end: list[int], ids: list[int]) -> list[int]:
    return [*start, *ids, *end]


def installed_transformer(stock: Callable[..., Any], name: str, *args: Any, **options: Any) -> Any:
    """Makes what a transformer needs; of an archive that is opened, from transformers' cache alone."""
    if not is_opening_untrusted():
        return stock(name, *args, **options)
    try:
        return stock(name, *args, local_files_only=True, **options)
    except OSError:
        refuse_to_fetch(f"the transformer {name!r} (`hf download {name}`)")


@around(SpacyTokenizer, "__init__")
def split_by_rules_without_a_model(
    stock: Callable[..., None], self: SpacyTokenizer, *args: Any, **options: Any
) -> None:
    """Most readers and predictors of AllenNLP download `en_core_web_sm`, and need only its rules."""
    call = inspect.signature(stock).bind(self, *args, **options)
    needs_model = any(call.arguments.get(name) for name in ("pos_tags", "parse", "ner"))
    name = call.arguments.get("language", "en_core_web_sm")
    if (language := re.match("([a-z]{2,3})_", name)) and not needs_model and find_spec(name) is None:
        import spacy  # takes a third of a second

        logger.warning(
            "the spaCy model %s is not installed; spaCy's rules alone split texts into words", name
        )
        rules = spacy.blank(language[1])
        util.LOADED_SPACY_MODELS.setdefault((name, False, False, False), rules)
        call.arguments["pos_tags"] = False
    stock(*call.args, **call.kwargs)


def take_gojsonnet() -> None:
    """The package jsonnet has no wheel for ARM Linux; gojsonnet, which has one, has its functions."""
    if find_spec("_jsonnet") is None and find_spec("_gojsonnet") is not None:
        for name in ("evaluate_file", "evaluate_snippet"):
            replace(params_module, name, getattr(import_module("_gojsonnet"), name))


@around(params_module, "cached_path")
def read_local_configs(
    stock: Callable[..., str], path: str | os.PathLike[str], *args: Any, **options: Any
) -> str:
    """A config in a file imports the clients of all stores, and one of the project is not found by name."""
    path = local_or_bundled(path)
    if os.path.exists(path):
        return path
    try:
        return stock(path, *args, **options)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}{did_you_mean_path(path) or did_you_mean_config(path)}") from error
