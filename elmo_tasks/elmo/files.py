"""A biLM from its files: paths, URLs, `hf://` names."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import bundled, read_lines
from elmo_tasks.elmo.inference import FrozenBiLm, TrainedBiLm
from elmo_tasks.elmo.model import BiLmOptions, many_langs
from elmo_tasks.elmo.model.bilm_folder import opened_folder
from elmo_tasks.elmo.model.characters import vocabulary
from elmo_tasks.elmo.model.many_langs import is_many_langs
from elmo_tasks.elmo.model.weight_file import read_initial_state as read_state_file
from elmo_tasks.elmo.model.weight_file import read_softmax as read_softmax_file

Source = str | PathLike[str]
"""Path, URL or `hf://` name."""

OPTIONS = "options.json"
WEIGHTS, VOCABULARIES = ("weights.hdf5", "model.hdf5"), ("vocab.txt", "vocab.txt.gz")
"""The files of a folder of `allennlp elmo export`; in NLPL's repository the weights are `model.hdf5`."""
DEFAULT_OPTIONS = str(bundled("pretrained/english/options.json"))
DEFAULT_WEIGHTS = str(bundled("pretrained/english/weights.hdf5"))


@contextmanager
def local_file(source: Source) -> Iterator[Path]:
    """
    The file of a source on this machine; errors that name the file name the source instead.

    # Raises
    `FileNotFoundError`: nothing is there. `ElmoError`: a URL, and nothing that fetches it is installed.
    """
    path = _fetched(os.fspath(source))
    try:
        yield path
    except ElmoError as error:
        raise ElmoError(str(error).replace(str(path), str(source))) from error


def holds_options(weight_file: Source) -> bool:
    """
    Whether it is a folder or a zip, in which the options stand beside the weights.

    # Raises
    See `local_file`.
    """
    with local_file(weight_file) as path, opened_folder(path) as folder:
        return folder is not None


def check_together(options_file: Source | None, weight_file: Source | None, *, names: str) -> None:
    """
    # Parameters

    names : of the two, for the error; each is `None` where it is not given.

    # Raises
    `ElmoError`: one of the two is given alone, and it is no folder or zip that holds both.
    """
    if (options_file is None) == (weight_file is None):
        return
    if weight_file is None or not holds_options(weight_file):
        raise ElmoError(
            f"{names} belong together: give both, or neither, or a folder or zip of both as the weights"
        )


def prepare_on(bilm: FrozenBiLm, device: str | torch.device, *, asked: str) -> FrozenBiLm:
    """
    The biLM itself, moved to a device, with its weights packed.

    # Parameters

    asked : the option that names the device, for the error.

    # Raises
    `ElmoError`: the device is not there; the processor has no products of the biLM's precision.
    """
    try:
        chosen = torch.device(device)
        if chosen.type == "meta":
            raise RuntimeError("it computes nothing")
        bilm.to(chosen)
    # What PyTorch raises for a device that is not there
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise ElmoError(f"{asked} {device} cannot be used: {reason}") from error
    bilm.prepare()
    return bilm


def read_options(source: Source | dict[str, Any], weight_file: Source | None = None) -> BiLmOptions:
    """
    The options of an `options.json`, or the options themselves; with the default options and a `weight_file`
    that is a folder or a zip, those in there.

    # Raises
    `ElmoError`: see `BiLmOptions.read` and `many_langs.read_options`.
    """
    if source == DEFAULT_OPTIONS and weight_file is not None and weight_file != DEFAULT_WEIGHTS:
        with local_file(weight_file) as path, opened_folder(path) as folder:
            if folder is not None:
                if is_many_langs(folder):
                    return many_langs.read_options(folder)
                return BiLmOptions.from_json(folder.json(OPTIONS), where=folder.where(OPTIONS))
    if isinstance(source, dict):
        return BiLmOptions.read(source)
    with local_file(source) as path:
        return BiLmOptions.read(path)


def read_words(source: Source) -> list[str]:
    """
    A vocabulary of bilm-tf, one word a line, gzip or not, in the order of the rows of the biLM's table.

    # Raises
    `ElmoError`, with the source and the line: see `vocabulary`; or what is not UTF-8.
    """
    with local_file(source) as path:
        return vocabulary(read_lines(path), where=path)


def read_frozen_bilm(
    options: BiLmOptions,
    weight_file: Source,
    vocabulary_file: Source | None = None,
    *,
    precision: str = "float32",
) -> FrozenBiLm:
    """
    A frozen biLM from official HDF5 weights and, if it reads words, its vocabulary; or from a folder or a zip
    with `OPTIONS`, one of `WEIGHTS` and, if it reads words, one of `VOCABULARIES`, or of ELMoForManyLangs.

    # Raises
    `ElmoError`: see `FrozenBiLm.read` and `many_langs.read_weights`.
    """
    with local_file(weight_file) as path, opened_folder(path) as folder:
        if folder is not None and is_many_langs(folder):
            if vocabulary_file is not None:
                raise ElmoError(
                    f"found a vocabulary_file, {vocabulary_file}, expected none: {weight_file} has the words"
                )
            weights = many_langs.read_weights(folder, options)
            return FrozenBiLm(options=options, precision=precision, weights=weights)
        if folder is not None:
            path = folder.one_of(WEIGHTS)
            if vocabulary_file is None and not options.reads_characters:
                vocabulary_file = folder.one_of(VOCABULARIES)
        check_vocabulary(options, weight_file, vocabulary_file)
        words = None if vocabulary_file is None else read_words(vocabulary_file)
        return FrozenBiLm.read(options, path, words, precision=precision)


def check_vocabulary(
    options: BiLmOptions, weight_file: Source | None, vocabulary_file: Source | None
) -> None:
    """
    # Raises
    `ElmoError`: weights of a biLM that reads words without a vocabulary, or a vocabulary for one that reads
    characters.
    """
    if options.reads_characters and vocabulary_file is not None:
        raise ElmoError(
            f"found a vocabulary_file, {vocabulary_file}, expected none: the biLM reads characters"
        )
    if not options.reads_characters and vocabulary_file is None and weight_file is not None:
        raise ElmoError(
            f"{weight_file}: the biLM reads words, expected also its vocabulary_file, one word a line"
        )


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
    `ElmoError`: see `weight_file.read_softmax`.
    """
    with local_file(source) as path:
        return read_softmax_file(path, options)


def read_initial_state(source: Source, options: BiLmOptions) -> tuple[torch.Tensor, torch.Tensor]:
    """
    # Raises
    `ElmoError`: see `weight_file.read_initial_state`.
    """
    with local_file(source) as path:
        return read_state_file(path, options)


def _fetched(source: str) -> Path:
    """What AllenNLP's `cached_path` gives, from the same cache."""
    if "://" not in source:
        path = Path(source).expanduser()
        if not path.exists():
            raise FileNotFoundError(f"file {source} not found")
        return path
    try:
        from cached_path import cached_path
    except ModuleNotFoundError as error:
        raise ElmoError(
            f"found the URL {source}, expected a path: what fetches URLs is in elmo_tasks[allennlp]"
        ) from error
    root = os.getenv("ALLENNLP_CACHE_ROOT", Path.home() / ".allennlp")
    return cached_path(source, cache_dir=Path(root, "cache"))
