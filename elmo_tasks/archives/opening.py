"""
Opens archives of models: `open_archive`, which takes the place of AllenNLP's `load_archive`, and the names of
the archives that come trained with the project.
"""

import json
import os
import pickle
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.common.meta import META_NAME, Meta
from allennlp.common.params import Params, parse_overrides, with_overrides
from allennlp.data import Vocabulary
from allennlp.models import Model, archival
from allennlp.models.archival import Archive

from elmo_tasks.archives.trust import (
    REMEDY,
    OfflineError,
    bounded_by,
    check_config,
    offline,
    only_known_types,
    read_config,
)
from elmo_tasks.common.errors import ElmoError, did_you_mean_path, nearest_name
from elmo_tasks.common.files import bundled, read_json_object, refuse_special_files, unpack
from elmo_tasks.common.machine import Device, chosen_device, gpu_index
from elmo_tasks.common.old_keys import old_keys_named
from elmo_tasks.common.strict_params import ConfigError, block_errors, jsonnet_errors
from elmo_tasks.elmo.model.weight_file import FLOATS
from elmo_tasks.elmo.token_embedder import archived_state

_WRONG_WEIGHTS = re.compile(r"Error(\(s\) in)? loading state.dict for ")
_vocabulary_from_files = Vocabulary.from_files.__func__
TRAINED = "elmo:"
"""Names of archives that come with the project begin so: `elmo:ner`."""
CARDS = "models.json"
"""The file with the task, the data, the score and examples of each archive, in the same folder."""
_BUILT = {"dataset_reader", "validation_dataset_reader", "model"}
"""The parts of a config that an archive is opened with."""
_archives_being_opened: ContextVar[tuple[str, ...]] = ContextVar(
    "the archives being opened, the outer first", default=()
)


class ArchiveError(ConfigError, RuntimeError, TypeError):
    """
    An archive that is damaged or must not be opened; `where` names it. It takes the place of errors of
    AllenNLP of all its bases.
    """


def local_archive(archive: str | PathLike[str]) -> Path:
    """Returns the local path of an archive, or the folder of a run; see `archive_path`."""
    path = Path(archive_path(archive)).expanduser()
    if path.exists():
        return path
    if "://" in fspath(archive) or "!" in fspath(archive):
        return Path(cached_path(fspath(archive)))
    trained = fspath(archive) in trained_archives()
    hint = f"; did you mean {TRAINED}{archive}?" if trained else did_you_mean_path(archive)
    raise FileNotFoundError(f"file {archive} not found{hint}")


def packed_archive(archive: str | PathLike[str]) -> Path:
    """Returns the local path of an archive, or of the `model.tar.gz` in the folder of a run."""
    path = local_archive(archive)
    return path / "model.tar.gz" if path.is_dir() else path


def open_archive(
    archive_file: str | PathLike[str],
    cuda_device: Device = -1,
    overrides: str | dict[str, Any] = "",
    weights_file: str | None = None,
) -> Archive:
    """
    Opens the archive at the path or URL of a `model.tar.gz`, in the folder of a run, or by its name if it
    comes with the project, such as `elmo:ner`. The parameters are the same as of AllenNLP's `load_archive`;
    `cuda_device` may have a name, such as `cpu` and `cuda:0`.

    # Raises
    `ArchiveError`: the archive is not whole; its config is not plain JSON, or has a name that no plug-in
    registers; or a weight is not finite. `ConfigurationError`: there is no such GPU, or the overrides are not
    Jsonnet. `OSError`: nothing is there, or the machine fails, for example with a full disk.
    """
    path = local_archive(archive_file)
    gpu = -1 if cuda_device == -1 else usable_gpu(cuda_device)
    override_block = override_block_of(overrides)
    if weights_file is not None:
        weights_file = cached_path(weights_file)
    outer, real = _archives_being_opened.get(), os.path.realpath(path)
    with archive_errors(archive_file), only_known_types(override_block), offline():
        if real in outer:
            raise ConfigError("the config opens the archive itself")
        token = _archives_being_opened.set((*outer, real))
        try:
            if path.is_dir():
                check_config(path)
                return _read(path, archive_file, override_block, weights_file, gpu)
            with extracted_archive(path) as folder:
                return _read(Path(folder), archive_file, override_block, weights_file, gpu)
        finally:
            _archives_being_opened.reset(token)


def _read(
    folder: Path, name: str | PathLike[str], overrides: dict[str, Any], weights_file: str | None, gpu: int
) -> Archive:
    """Reads an unpacked archive, as AllenNLP's `load_archive` does."""
    content = read_config(folder)
    with_files = with_overrides(content, _archived_files(content, folder))
    with jsonnet_errors("overrides"):
        content, with_files = (with_overrides(each, overrides) for each in (content, with_files))
    # To train, null is the same as no key.
    config, built = (
        Params({key: value for key, value in each.items() if value is not None})
        for each in (content, with_files)
    )
    weights_file = weights_file or archival.get_weights_path(str(folder))
    with old_keys_named({key: built.params[key] for key in built.keys() & _BUILT}):
        readers = archival._load_dataset_readers(built.duplicate(), str(folder))
        with bounded_by(Path(weights_file)):
            model = Model.load(
                built.duplicate(),
                serialization_dir=str(folder),
                weights_file=weights_file,
                cuda_device=gpu,
            )
    # An ensemble may have its members elsewhere.
    _check_numbers(model, archived_state(folder, weights_file) if os.path.exists(weights_file) else {})
    meta = None
    if (meta_file := folder / META_NAME).exists():
        meta = Meta(**read_json_object(meta_file, where=META_NAME))
        meta.version = repr(meta.version)[1:-1]  # without the codes of a terminal
        archival._check_version_compatibility(name, meta)
    # An archive reads whole files, also if its model was trained on a part of one, by `elmo_sample`.
    reader, validation_reader = (getattr(reader, "wrapped_reader", reader) for reader in readers)
    return Archive(model, config, reader, validation_reader, meta)


def override_block_of(overrides: str | dict[str, Any]) -> dict[str, Any]:
    """Returns overrides as a block; `ConfigurationError`: they are not Jsonnet."""
    with jsonnet_errors("overrides"):
        return parse_overrides(overrides) if isinstance(overrides, str) else overrides


def _archived_files(config: dict[str, Any], folder: Path) -> dict[str, str]:
    """Returns, by their keys, the files of the config that AllenNLP up to 0.9 put into an archive."""
    index, inside = folder / "files_to_archive.json", folder / "fta"
    keys = read_json_object(index).keys() & Params(config).as_flat_dict() if index.exists() else ()
    return {key: str(inside / key) for key in keys if (inside / key).is_file() and Path(key).name == key}


def usable_gpu(device: Device) -> int:
    """Returns AllenNLP's index of a device, see `gpu_index`; `ConfigError`: it is not there."""
    with block_errors():
        index = gpu_index(device)
        if index >= 0:
            chosen_device(index, option="cuda_device")
    return index


def vocabulary_from_files(
    cls: type[Vocabulary], directory: str | PathLike[str], *args: Any, **options: Any
) -> Vocabulary:
    """Takes the place of AllenNLP's `Vocabulary.from_files`, also for a folder of a run, or `elmo:ner`."""
    path = archive_path(directory)
    own = Path(path, "vocabulary")
    folder = own if own.is_dir() else path
    refuse_special_files(Path(folder).glob("*"))
    return _vocabulary_from_files(cls, folder, *args, **options)


@contextmanager
def extracted_archive(resolved_archive_file: str | PathLike[str], cleanup: bool = True) -> Iterator[str]:
    """
    Takes the place of AllenNLP's function of this name: nothing is written outside of the folder, and the
    config is checked before anything reads it, see `check_config`. After an error no file remains.
    """
    keep = False
    folder = tempfile.mkdtemp()
    try:
        unpack(Path(resolved_archive_file), Path(folder))
        check_config(Path(folder))
        yield folder
        keep = not cleanup
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _check_numbers(model: Model, stored: dict[str, Any]) -> None:
    """
    Refuses weights that are not finite, and those that are stored in another type than `FLOATS`. A buffer,
    such as a mask, may be infinite.
    """
    buffers = {name for name, _ in model.named_buffers()}
    for name, weight in model.state_dict().items():
        if isinstance(weight, torch.Tensor) and weight.is_floating_point():
            kind = getattr(stored.get(name), "dtype", weight.dtype)
            if kind not in FLOATS:
                raise ConfigError(
                    f"the weight {name} has the type {kind}, not one of {', '.join(map(str, FLOATS))}"
                )
            wrong = weight.isnan() if name in buffers else ~weight.isfinite()
            if wrong.any():
                index = tuple(wrong.nonzero()[0].tolist())
                raise ConfigError(f"the weight {name} is {weight[index].item()} at {index}, not finite")


@contextmanager
def archive_errors(archive: str | PathLike[str]) -> Iterator[None]:
    """Turns errors into an `ArchiveError` that names the archive, except for failures of the machine."""
    try:
        yield
    except Exception as error:
        of_machine = isinstance(error, OSError) and error.errno and not isinstance(error, FileNotFoundError)
        if of_machine:
            error.add_note(f"while opening {archive}")
        if of_machine or isinstance(error, ArchiveError):
            raise
        raise ArchiveError(_fault(error), where=archive) from error


def _fault(error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OfflineError):
            return f"{cause}; get it before, or, {REMEDY}"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, ConfigurationError):
        return error.message
    if isinstance(error, ElmoError):
        is_member = error.where and not os.path.isabs(error.where)  # otherwise of a folder that is gone
        return f"{error.where}: {error.what}" if is_member else error.what
    first, _, rest = str(error).partition("\n")
    if isinstance(error, RuntimeError) and _WRONG_WEIGHTS.match(first):
        # PyTorch writes a line for each tensor; AllenNLP two lists of names, of which one may be empty.
        tensors = [line.strip() for line in rest.splitlines() if not line.endswith("[]")]
        return f"the weights do not fit the model of the config: {shorten('; '.join(tensors), 400)}"
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in first:
        return f"too little memory to open it ({first})"
    if isinstance(error, pickle.UnpicklingError):
        return "PyTorch did not write the weights"
    return f"not a whole archive of a model ({type(error).__name__}: {first})"


def trained_archives() -> dict[str, Path]:
    """Returns the archives that come with the project, by name, from the checkout or `elmo_tasks_models`."""
    folders = [bundled("models/elmo_tasks_models")]
    if (spec := find_spec("elmo_tasks_models")) is not None:
        folders += map(Path, spec.submodule_search_locations or ())
    paths = (path for folder in folders for path in sorted(folder.glob("*.tar.gz")))
    return {path.name.removesuffix(".tar.gz"): path for path in paths}


def trained_card(name: str) -> dict[str, Any]:
    """Returns `task`, `data`, `score` and perhaps `examples` of an archive of the project."""
    path = trained_archives()[name].with_name(CARDS)
    return json.loads(path.read_text(encoding="utf-8"))[name]


def archive_path(archive: str | PathLike[str]) -> str | PathLike[str]:
    """Returns the path of an archive of the project for its name; other paths and URLs stay."""
    text = fspath(archive)
    if not text.startswith(TRAINED):
        return archive
    archives, name = trained_archives(), text.removeprefix(TRAINED)
    if name not in archives:
        nearest = nearest_name(name, archives)
        remedy = f"there are {', '.join(TRAINED + trained for trained in archives)}"
        if nearest is not None:
            remedy = f"did you mean {TRAINED + nearest!r}?"
        raise ConfigError(
            f"no trained model is named {text}",
            remedy=remedy if archives else "install them: pip install elmo_tasks[models]",
        )
    return archives[name]
