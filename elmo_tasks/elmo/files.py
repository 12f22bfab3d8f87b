"""A biLM from its files: paths, URLs and `hf://` names of options, weights, words and initial states."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import torch

from elmo_tasks.common.errors import ElmoError, did_you_mean_path, errors_as
from elmo_tasks.common.files import bundled, local_or_bundled, text_lines
from elmo_tasks.common.machine import Device, chosen_device
from elmo_tasks.common.packed_weights import check_precision
from elmo_tasks.elmo.inference import PRECISIONS, FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model import BiLmOptions, folders
from elmo_tasks.elmo.model.bilm import digest
from elmo_tasks.elmo.model.characters import vocabulary
from elmo_tasks.elmo.model.encoders import WordEncoder
from elmo_tasks.elmo.model.folders import opened_folder
from elmo_tasks.elmo.model.weight_file import initial_state_in, softmax_in

logger = logging.getLogger(__name__)

Source = str | PathLike[str]
"""Path, URL or `hf://` name."""
Precision = Literal["float32", "bfloat16"]

OPTIONS = "options.json"
WEIGHTS, VOCABULARIES = ("weights.hdf5", "model.hdf5", "weights.safetensors"), ("vocab.txt", "vocab.txt.gz")
"""The files of a folder of `allennlp elmo export`; in NLPL's repository the weights are `model.hdf5`."""
_CONNECT_SECONDS, _READ_SECONDS = 3, 60
DEFAULT_OPTIONS = str(bundled("pretrained/english/options.json"))
DEFAULT_WEIGHTS = str(bundled("pretrained/english/weights.safetensors"))


@contextmanager
def local_file(source: Source) -> Iterator[Path]:
    """Gives the local file of a source. An `ElmoError` about the file names the source instead."""
    path = _fetched(os.fspath(source))
    try:
        yield path
    except ElmoError as error:
        error.where, error.what = (text.replace(str(path), str(source)) for text in (error.where, error.what))
        raise


def _fetched(source: str) -> Path:
    """Returns the file as AllenNLP's `cached_path` does, from the same cache."""
    if "://" not in source:
        path = Path(local_or_bundled(source))
        if not path.exists():
            raise FileNotFoundError(f"file {source} not found{did_you_mean_path(source)}")
        return path
    remedy = "pip install elmo_tasks[allennlp]"
    with errors_as(ElmoError, "a URL needs cached_path", ImportError, where=source, remedy=remedy):
        from cached_path import cached_path
    limit_http_waits()
    root = os.getenv("ALLENNLP_CACHE_ROOT", Path.home() / ".allennlp")
    return cached_path(source, cache_dir=Path(root, "cache"))


@cache
def limit_http_waits() -> None:
    """Lets `cached_path` take a file from its cache if a host does not answer for some seconds."""
    from cached_path.schemes import http

    original = http.session_with_backoff

    def session_with_backoff(headers: dict[str, str] | None = None) -> Any:
        session = original(headers)
        for adapter in session.adapters.values():
            adapter.max_retries = adapter.max_retries.new(connect=1)
        session.request = partial(session.request, timeout=(_CONNECT_SECONDS, _READ_SECONDS))
        return session

    http.session_with_backoff = session_with_backoff


def check_together(options: Source | None, weight_file: Source | None, *, names: str) -> None:
    """Refuses one without the other, unless the weights are a folder or zip of both."""
    if (options is None) == (weight_file is None):
        return
    if weight_file is not None:
        with local_file(weight_file) as path, opened_folder(path) as folder:
            if folder is not None:
                return
    raise ElmoError(
        f"{names} belong together", remedy="give both, or neither, or a folder or zip of both as the weights"
    )


def read_options(source: Source | dict[str, Any], weight_file: Source | None = None) -> BiLmOptions:
    """
    Reads an `options.json`, one in a folder or zip, or takes the options themselves. A `weight_file` that is
    a folder or zip comes before the default options.
    """
    if isinstance(source, dict):
        return BiLmOptions.read(source)
    sources = [source]
    if source == DEFAULT_OPTIONS and weight_file is not None and weight_file != DEFAULT_WEIGHTS:
        sources = [weight_file, source]
    for options_source in sources:
        with local_file(options_source) as path, opened_folder(path) as folder:
            if folder is not None:
                if folders.is_many_langs(folder):
                    return folders.options_in(folder)
                return BiLmOptions.from_json(folder.json(OPTIONS), where=folder.where(OPTIONS))
    with local_file(source) as path:
        return BiLmOptions.read(path)


def read_words(source: Source) -> list[str]:
    with local_file(source) as path:
        return vocabulary(text_lines(path), where=path)


def read_bilm(
    options: BiLmOptions,
    weight_file: Source | None,
    vocabulary_file: Source | None = None,
    *,
    trainable: bool = False,
    precision: str = "float32",
) -> FrozenBiLm | TrainedBiLm:
    """Reads a biLM. Without `weight_file` its weights are random, of which a frozen one warns."""
    if weight_file is not None:
        frozen = read_frozen_bilm(options, weight_file, vocabulary_file, precision=precision)
        return trained_copy(frozen) if trainable else frozen
    if vocabulary_file is not None:
        _check_vocabulary(vocabulary_file, needed=not options.reads_characters)
    trained = TrainedBiLm(options=options)
    if vocabulary_file is not None and isinstance(trained.token_encoder, WordEncoder):
        trained.token_encoder.set_vocabulary(read_words(vocabulary_file))
    if trainable:
        return trained
    logger.warning("The biLM is frozen with random weights, since weight_file is not set")
    return FrozenBiLm(options=options, precision=precision, weights=trained.state_dict())


def trained_copy(bilm: FrozenBiLm) -> TrainedBiLm:
    trained = TrainedBiLm(options=bilm.options)
    trained.load_state_dict(bilm.weights())
    return trained.to(bilm.device)


def read_frozen_bilm(
    options: BiLmOptions,
    weight_file: Source,
    vocabulary_file: Source | None = None,
    *,
    precision: str = "float32",
) -> FrozenBiLm:
    """
    Reads weights in the official layout and, if the biLM reads words, its vocabulary; or a folder or zip with
    `OPTIONS`, one of `WEIGHTS` and of `VOCABULARIES`; or one of ELMoForManyLangs. A vocabulary is an
    `ElmoError` where it is missing or not needed.
    """
    with local_file(weight_file) as path, opened_folder(path) as folder:
        if folder is not None and folders.is_many_langs(folder):
            _check_vocabulary(vocabulary_file, needed=False)
            state = folders.weights_in(folder, options)
            return FrozenBiLm(options=options, precision=precision, weights=state)
        if folder is not None:
            path = folder.file(*WEIGHTS)
            if vocabulary_file is None and not options.reads_characters:
                vocabulary_file = folder.file(*VOCABULARIES)
        _check_vocabulary(vocabulary_file, needed=not options.reads_characters)
        words = None if vocabulary_file is None else read_words(vocabulary_file)
        return FrozenBiLm.read(options, path, words, precision=precision)


def read_chosen_bilm(
    options_file: Source | None,
    weight_file: Source | None,
    vocabulary_file: Source | None,
    *,
    precision: str,
    names: str,
) -> FrozenBiLm:
    """Reads a frozen biLM, by default the shipped one; for `names` see `check_together`."""
    check_together(options_file, weight_file, names=names)
    options = read_options(options_file or DEFAULT_OPTIONS, weight_file)
    return read_frozen_bilm(options, weight_file or DEFAULT_WEIGHTS, vocabulary_file, precision=precision)


def _check_vocabulary(vocabulary_file: Source | None, *, needed: bool) -> None:
    if needed == (vocabulary_file is not None):
        return
    what, remedy = "the biLM needs no vocabulary_file", "remove vocabulary_file"
    if needed:
        what, remedy = "the biLM reads words", "set its vocabulary_file, which has one word a line"
    raise ElmoError(what, where=vocabulary_file or "", remedy=remedy)


def read_softmax(weight_file: Source, options: BiLmOptions) -> tuple[torch.Tensor, torch.Tensor] | None:
    with local_file(weight_file) as path:
        return softmax_in(path, options)


def read_initial_state(
    source: Source, options: BiLmOptions, bilm: FrozenBiLm | TrainedBiLm | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads the state of `initial_state_in`; the state of other weights is an `ElmoError`."""
    with local_file(source) as path:
        hidden, cell, origin = initial_state_in(path, options)
        if bilm is not None and origin not in (None, bilm.digest()):
            # Written with another precision of the products
            weights = bilm.weights() if isinstance(bilm, FrozenBiLm) else bilm.state_dict()
            if origin not in (digest(options, weights.items(), precision) for precision in PRECISIONS):
                raise ElmoError(
                    f"the file has the state of other weights ({origin})",
                    where=path,
                    remedy="run `allennlp elmo calibrate` with these weights",
                )
        return hidden, cell


def move_to(bilm: FrozenBiLm, device: Device, *, option: str) -> FrozenBiLm:
    """Moves a biLM to a device that has products of its precision; `option` names the device in errors."""
    chosen = chosen_device(device, option=option)
    # Where it is there already, its weights may be packed.
    if bilm.device != chosen:
        bilm.to(chosen)
    check_precision(bilm.precision, chosen)
    return bilm
