"""
Where the files of a biLM come from: paths, URLs, `hf://` names. Here the errors of the model and its engine
become those of AllenNLP, with the name that the user gave.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path

from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model import BiLmOptions, ElmoError
from elmo_tasks.elmo.model.weight_file import read_initial_state as read_state_file
from elmo_tasks.elmo.model.weight_file import read_softmax as read_softmax_file
from elmo_tasks.elmo.model.words import vocabulary
from elmo_tasks.paths import bundled

Source = str | PathLike[str]
"""Path, URL or `hf://` name."""

DEFAULT_OPTIONS = str(bundled("pretrained/english/options.json"))
DEFAULT_WEIGHTS = str(bundled("pretrained/english/weights.hdf5"))


@contextmanager
def configuration_errors() -> Iterator[None]:
    """An `ElmoError` within becomes AllenNLP's `ConfigurationError`."""
    try:
        yield
    except ElmoError as error:
        raise ConfigurationError(str(error)) from error


@contextmanager
def local_file(source: Source) -> Iterator[Path]:
    """The file of a source on this machine; errors that name the file name the source instead."""
    path = Path(cached_path(source))
    try:
        yield path
    except ElmoError as error:
        raise ConfigurationError(str(error).replace(str(path), str(source))) from error


def read_options(source: Source | dict[str, Any]) -> BiLmOptions:
    """
    The options of an `options.json`, or the options themselves.

    # Raises
    `ConfigurationError`: see `BiLmOptions.read`.
    """
    if isinstance(source, dict):
        with configuration_errors():
            return BiLmOptions.read(source)
    with local_file(source) as path:
        return BiLmOptions.read(path)


def read_words(source: Source) -> list[str]:
    """
    A vocabulary of bilm-tf, one word a line, gzip or not, in the order of the rows of the biLM's table.

    # Raises
    `InputError`, with the source and the line: see `vocabulary`; or what is not UTF-8.
    """
    try:
        return vocabulary(read_lines(cached_path(source)), where=source)
    except ElmoError as error:
        raise InputError(str(error)) from error


def read_frozen_bilm(
    options: BiLmOptions,
    weight_file: Source,
    vocabulary_file: Source | None = None,
    *,
    precision: str = "float32",
) -> FrozenBiLm:
    """
    A frozen biLM from official HDF5 weights and, if it reads words, its vocabulary.

    # Raises
    `ConfigurationError`: see `FrozenBiLm.read`.
    """
    check_vocabulary(options, weight_file, vocabulary_file)
    words = None if vocabulary_file is None else read_words(vocabulary_file)
    with local_file(weight_file) as path:
        return FrozenBiLm.read(options, path, words, precision=precision)


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


def check_vocabulary(
    options: BiLmOptions, weight_file: Source | None, vocabulary_file: Source | None
) -> None:
    """
    # Raises
    `ConfigurationError`: weights of a biLM that reads words without a vocabulary, or a vocabulary for one
    that reads characters.
    """
    if options.reads_characters and vocabulary_file is not None:
        raise ConfigurationError(
            f"found a vocabulary_file, {vocabulary_file}, expected none: the biLM reads characters"
        )
    if not options.reads_characters and vocabulary_file is None and weight_file is not None:
        raise ConfigurationError(
            f"{weight_file}: the biLM reads words, expected also its vocabulary_file, one word a line"
        )


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
    `ConfigurationError`: see `weight_file.read_initial_state`.
    """
    with local_file(source) as path:
        return read_state_file(path, options)
