"""The files of a biLM, for `Elmo` and the suite: `files`, with errors that AllenNLP knows, and a few more."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from elmo_tasks.elmo import files
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, DEFAULT_WEIGHTS, Source
from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model import BiLmOptions, ElmoError
from elmo_tasks.elmo.model.initial_state import read_initial_state as read_state_file
from elmo_tasks.elmo.model.weight_file import read_softmax as read_softmax_file
from elmo_tasks.values import BlockError

__all__ = [
    "DEFAULT_OPTIONS",
    "DEFAULT_WEIGHTS",
    "check_together",
    "check_vocabulary",
    "configuration_errors",
    "local_file",
    "read_bilm",
    "read_frozen_bilm",
    "read_initial_state",
    "read_options",
    "read_softmax",
    "read_words",
]


@contextmanager
def configuration_errors() -> Iterator[None]:
    """
    A `BlockError` or an `ElmoError` within becomes AllenNLP's `ConfigurationError`; an `ElmoError` where
    nobody has imported AllenNLP.
    """
    try:
        yield
    except (BlockError, ElmoError) as error:
        checks = sys.modules.get("allennlp.common.checks")
        kind = ElmoError if checks is None else checks.ConfigurationError
        raise kind(str(error)) from error


check_vocabulary = configuration_errors()(files.check_vocabulary)
check_together = configuration_errors()(files.check_together)
read_frozen_bilm = configuration_errors()(files.read_frozen_bilm)
read_options = configuration_errors()(files.read_options)
read_words = configuration_errors()(files.read_words)


@contextmanager
def local_file(source: Source) -> Iterator[Path]:
    """See `files.local_file`."""
    with configuration_errors(), files.local_file(source) as path:
        yield path


def read_bilm(
    options: BiLmOptions,
    weight_file: Source,
    vocabulary_file: Source | None = None,
    *,
    trainable: bool = False,
    precision: str = "float32",
) -> FrozenBiLm | TrainedBiLm:
    """`read_frozen_bilm`, or of the same files a biLM to be trained."""
    frozen = read_frozen_bilm(options, weight_file, vocabulary_file, precision=precision)
    if not trainable:
        return frozen
    trained = TrainedBiLm(options=options)
    trained.load_state_dict(frozen.weights())
    return trained


def read_softmax(source: Source, options: BiLmOptions) -> tuple[torch.Tensor, torch.Tensor] | None:
    """
    # Raises
    `ConfigurationError`: see `weight_file.read_softmax`.
    """
    with local_file(source) as path:
        return read_softmax_file(path, options)


def read_initial_state(source: Source, options: BiLmOptions) -> tuple[torch.Tensor, torch.Tensor]:
    """
    # Raises
    `ConfigurationError`: see `initial_state.read_initial_state`.
    """
    with local_file(source) as path:
        return read_state_file(path, options)
