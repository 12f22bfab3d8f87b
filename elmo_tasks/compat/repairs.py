"""Mends, at run time, what AllenNLP 2.10.1 loses on today's PyTorch, numpy and Python.

Each repair is a function that says what breaks, looks whether it does, and may be called twice.
"""

import inspect
import logging
import random
import signal
import warnings
from collections.abc import Callable
from typing import Any, List, Optional, Union  # noqa: UP035  from_params reads List

import numpy
import torch
from allennlp.common import Registrable, util
from allennlp.data import Token
from allennlp.data.data_loaders import MultiProcessDataLoader, multiprocess_data_loader
from allennlp.data.token_indexers import SingleIdTokenIndexer
from allennlp.data.vocabulary import Vocabulary
from allennlp.models.archival import Archive
from allennlp.predictors import Predictor
from allennlp.training.learning_rate_schedulers import (
    LearningRateScheduler,
    ReduceOnPlateauLearningRateScheduler,
)
from allennlp.training.learning_rate_schedulers.learning_rate_scheduler import (
    _PyTorchLearningRateSchedulerWithMetricsWrapper as SchedulerWithMetric,
)
from allennlp.training.moving_average import MovingAverage
from allennlp.training.optimizers import Optimizer

from elmo_tasks.common.processes import end_with_parent
from elmo_tasks.compat import commands, config_errors, quiet
from elmo_tasks.compat.wrapping import wrap

logger = logging.getLogger(__name__)


def repair() -> None:
    """Applies every repair; `elmo_tasks.suite` calls it when it is imported."""
    _restore_reduce_on_plateau()
    _allow_numpy_numbers_in_checkpoints()
    _resume_moving_averages()
    _let_loader_processes_be_started()
    _let_loader_processes_be_ended()
    _silence_amp_renaming()
    _name_devices_that_are_not_there()
    _read_the_padding_as_a_word()
    _find_the_predictor_of_a_model_from_an_archive()
    commands.repair()
    config_errors.install()
    quiet.install()


class ReduceOnPlateau(ReduceOnPlateauLearningRateScheduler):
    """Registered as "reduce_on_plateau", with the parameters that AllenNLP has always had.

    `verbose` logs each change of the learning rate; the others are those of
    `torch.optim.lr_scheduler.ReduceLROnPlateau`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        verbose: bool = False,
        threshold_mode: str = "rel",
        threshold: float = 1e-4,
        cooldown: int = 0,
        min_lr: Union[float, List[float]] = 0,  # noqa: UP006
        eps: float = 1e-8,
    ) -> None:
        SchedulerWithMetric.__init__(
            self,
            torch.optim.lr_scheduler.ReduceLROnPlateau(
                optimizer=optimizer,
                mode=mode,  # type: ignore[arg-type]
                factor=factor,
                patience=patience,
                threshold_mode=threshold_mode,  # type: ignore[arg-type]
                threshold=threshold,
                cooldown=cooldown,
                min_lr=min_lr,
                eps=eps,
            ),
        )
        self._verbose = verbose

    def step(self, metric: Optional[float] = None) -> None:
        before = list(self.get_values())
        super().step(metric)
        after = list(self.get_values())
        if self._verbose and after != before:
            logger.info("reduce_on_plateau: learning rate %s -> %s", before, after)


def _restore_reduce_on_plateau() -> None:
    """PyTorch 2.7 dropped `verbose`, which AllenNLP's wrapper always passes on: a TypeError."""
    parameters = inspect.signature(torch.optim.lr_scheduler.ReduceLROnPlateau).parameters
    if "verbose" not in parameters:
        # Taken out first: AllenNLP logs that a name is registered twice.
        Registrable._registry[LearningRateScheduler].pop("reduce_on_plateau", None)
        LearningRateScheduler.register("reduce_on_plateau")(ReduceOnPlateau)


def _allow_numpy_numbers_in_checkpoints() -> None:
    """`torch.load` refuses, since PyTorch 2.6, all but tensors and plain Python objects.

    What AllenNLP's training state holds beyond these is numpy's float64 (metrics, the cosine
    scheduler) and bool (comparisons of metrics). A number cannot run code; no other type is added.
    """
    # the function that pickle calls for a number
    number_from_bytes: Any = numpy.float64(0).__reduce__()[0]
    torch.serialization.add_safe_globals(
        [number_from_bytes, numpy.dtype, numpy.dtypes.Float64DType, numpy.dtypes.BoolDType]
    )


def _load_moving_average(self: MovingAverage, state_dict: dict[str, Any]) -> None:
    for mine, theirs in (
        (self._shadows, state_dict["shadows"]),
        (self._backups, state_dict["backups"]),
    ):
        for name, value in theirs.items():
            mine[name].copy_(value)


def _resume_moving_averages() -> None:
    """AllenNLP resumes with the checkpoint's copies of the parameters in place of the model's own.

    From then on the average follows parameters that no longer change, and it is never written to
    the model.
    """
    MovingAverage.load_state_dict = _load_moving_average


def _with_lock_and_seed(
    start: Callable[..., Any], self: MultiProcessDataLoader, queue: Any, context: Any
) -> Any:
    multiprocessing = multiprocess_data_loader.mp
    stock = multiprocessing.RLock
    multiprocessing.RLock = context.RLock
    self.worker_seed = random.getrandbits(64)
    try:
        return start(self, queue, context)
    finally:
        multiprocessing.RLock = stock


def _let_loader_processes_be_started() -> None:
    """Since 3.11.5, Python refuses to hand a lock that is meant for forks to a spawned process.

    AllenNLP's data loader does so, for its progress bars, when `start_method` is "spawn". And in a process
    that is forked or spawned `random` is seeded by chance: where it makes the batches, as with
    `max_instances_in_memory`, their order is another one in each run. So the run draws their seed, which
    `_prepared` takes.
    """
    for name in ("_start_instance_workers", "_start_batch_workers"):
        wrap(MultiProcessDataLoader, name, _with_lock_and_seed)


def _prepared(work: Callable[..., None], self: MultiProcessDataLoader, worker_id: int, *args: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    random.seed(self.worker_seed + worker_id)
    work(self, worker_id, *args)


def _telling_the_living(
    join: Callable[..., None], self: MultiProcessDataLoader, workers: Any, queue: Any, channels: Any
) -> None:
    pairs = zip(workers, channels, strict=True)
    join(self, workers, queue, [channel for worker, channel in pairs if worker.is_alive()])


def _let_loader_processes_be_ended() -> None:
    """
    A process of AllenNLP's data loader has the SIGTERM handler of `allennlp` from its fork. The handler
    raises an exception, which the process takes for an error of the reader: it waits for ever until somebody
    reads that error, and the run for the process. So a run never ended whose text was not read to its end,
    as with `batches_per_epoch`, or after SIGTERM. And whoever tells a process that has ended to stop, as the
    loader does in the end, gets a broken pipe.

    By itself, a process does not notice that the run was killed: it holds both ends of the pipe that is to
    tell it. It stayed for ever, with its memory.
    """
    for name in ("_instance_worker", "_batch_worker"):
        wrap(MultiProcessDataLoader, name, _prepared)
    wrap(MultiProcessDataLoader, "_join_workers", _telling_the_living)


def _silence_amp_renaming() -> None:
    """AllenNLP enters `torch.cuda.amp.autocast`, a deprecated name, for each batch, amp or not."""
    warnings.filterwarnings(
        "ignore",
        message=r"`torch\.cuda\.amp\.(autocast|GradScaler)\(args\.\.\.\)` is deprecated",
        category=FutureWarning,
        module=r"allennlp\.",
    )


def _int_to_device(stock: Callable[..., torch.device], device: Union[int, torch.device]) -> torch.device:
    try:
        return stock(device)
    except RuntimeError:
        return torch.device("cuda", device)  # type: ignore[arg-type]


def _name_devices_that_are_not_there() -> None:
    """
    PyTorch refuses to make `torch.device(0)` where there is no GPU, so that `check_for_gpu` fails before it
    can say so.
    """
    wrap(util, "int_to_device", _int_to_device)


def _ids_without_padding(
    stock: Callable[..., dict[str, list[int]]],
    self: SingleIdTokenIndexer,
    tokens: list[Token],
    vocabulary: Vocabulary,
) -> dict[str, list[int]]:
    indices = stock(self, tokens, vocabulary)
    if self.namespace is not None:
        ids_of_tokens = vocabulary.get_token_to_index_vocabulary(self.namespace)
        padding = ids_of_tokens.get(vocabulary._padding_token)
        if padding is not None and padding in indices["tokens"]:
            unknown = ids_of_tokens[vocabulary._oov_token]
            indices["tokens"] = [unknown if id == padding else id for id in indices["tokens"]]
    return indices


def _read_the_padding_as_a_word() -> None:
    """
    A word that is written as the vocabulary's padding (`@@PADDING@@`, or what the config calls it) gets the
    padding's id, a hole in the mask; here it is an unknown word.
    """
    wrap(SingleIdTokenIndexer, "tokens_to_indices", _ids_without_padding)


def _predictor_of_archive(
    stock: Callable[..., Predictor],
    cls: type[Predictor],
    archive: Archive,
    predictor_name: Optional[str] = None,
    *args: Any,
    **options: Any,
) -> Predictor:
    return stock(cls, archive, predictor_name or archive.model.default_predictor, *args, **options)


def _find_the_predictor_of_a_model_from_an_archive() -> None:
    """AllenNLP asks the class that the config names, which for `from_archive` is `Model`, of no predictor."""
    wrap(Predictor, "from_archive", _predictor_of_archive)
