"""Opening archives of models: `open_archive`, which takes the place of AllenNLP's `load_archive`."""

import json
import os
import pickle
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike, fspath
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.common.meta import META_NAME, Meta
from allennlp.common.params import Params, parse_overrides, with_overrides
from allennlp.common.util import SigTermReceived
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model, archival
from allennlp.models.archival import CONFIG_NAME, Archive

from elmo_tasks.archives.checking import check_config, only_registered_names
from elmo_tasks.archives.slim import TRAINED, archive_path, trained_archives
from elmo_tasks.common.errors import ElmoError, did_you_mean_path
from elmo_tasks.common.machine import Device, chosen_device, gpu_index
from elmo_tasks.common.strict_params import ConfigError, block_errors
from elmo_tasks.common.unpacking import unpack

_WRONG_WEIGHTS = re.compile(r"Error(\(s\) in)? loading state.dict for ")
_vocabulary_from_files = Vocabulary.from_files.__func__
_archives_being_opened: ContextVar[tuple[str, ...]] = ContextVar(
    "the archives being opened, the outer first", default=()
)


class ArchiveError(ConfigError):
    """An archive that is damaged or must not be opened; `where` names it."""


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
    """
    Returns the local path of an archive, or of the `model.tar.gz` in the folder of a run.

    # Raises
    `ArchiveError`: there is no such file; and see `archive_path`.
    """
    path = local_archive(archive)
    if path.is_dir():
        path /= "model.tar.gz"
    if not path.is_file():
        raise ArchiveError("the model.tar.gz is missing", where=archive)
    return path


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
    gpu = -1 if cuda_device == -1 else _gpu(cuda_device)
    with _override_errors():
        override_block = parse_overrides(overrides) if isinstance(overrides, str) else overrides
    if weights_file is not None:
        weights_file = cached_path(weights_file)
    outer, real = _archives_being_opened.get(), os.path.realpath(path)
    with _as_archive_errors(archive_file), only_registered_names(override_block):
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


@contextmanager
def _override_errors() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise ConfigError(" ".join(str(error).split()), where="overrides") from error


def _read(
    folder: Path, name: str | PathLike[str], overrides: dict[str, Any], weights_file: str | None, gpu: int
) -> Archive:
    """Reads an unpacked archive, as AllenNLP's `load_archive` does."""
    content = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8"))
    with _override_errors():
        config = Params(with_overrides(content, overrides) if overrides else content)
    readers = archival._load_dataset_readers(config.duplicate(), str(folder))
    model = Model.load(
        config.duplicate(),
        serialization_dir=str(folder),
        weights_file=weights_file or archival.get_weights_path(str(folder)),
        cuda_device=gpu,
    )
    _check_numbers(model)
    meta = Meta.from_path(folder / META_NAME) if (folder / META_NAME).exists() else None
    if meta is not None:
        archival._check_version_compatibility(name, meta)
    # An archive reads whole files, also if its model was trained on a part of one.
    reader, validation_reader = map(_unsampled, readers)
    return Archive(model, config, reader, validation_reader, meta)


def _gpu(device: Device) -> int:
    with block_errors():
        index = gpu_index(device)
        if index >= 0:
            chosen_device(index, option="cuda_device")
    return index


def _unsampled(reader: DatasetReader) -> DatasetReader:
    """Returns the reader inside an `elmo_sample`, which reads all data; other readers unchanged."""
    return getattr(reader, "wrapped_reader", reader)


def vocabulary_from_files(
    cls: type[Vocabulary], directory: str | PathLike[str], *args: Any, **options: Any
) -> Vocabulary:
    """
    Takes the place of AllenNLP's `Vocabulary.from_files`. It also takes an archive: the folder of a run, or a
    name such as `elmo:ner`.
    """
    path = archive_path(directory)
    own = Path(path, "vocabulary")
    return _vocabulary_from_files(cls, own if own.is_dir() else path, *args, **options)


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


def _check_numbers(model: Model) -> None:
    """Refuses weights that are not finite. A buffer, such as a mask, may be infinite."""
    buffers = {name for name, _ in model.named_buffers()}
    for name, weight in model.state_dict().items():
        if isinstance(weight, torch.Tensor) and weight.is_floating_point():
            wrong = weight.isnan() if name in buffers else ~weight.isfinite()
            if wrong.any():
                index = tuple(wrong.nonzero()[0].tolist())
                raise ConfigError(f"the weight {name} is {weight[index].item()} at {index}, not finite")


@contextmanager
def _as_archive_errors(archive: str | PathLike[str]) -> Iterator[None]:
    """Turns errors into an `ArchiveError` that names the archive, except for failures of the machine."""
    try:
        yield
    except (SigTermReceived, ArchiveError):
        raise
    except (ConfigurationError, ElmoError) as error:
        what = error.message if isinstance(error, ConfigurationError) else error.what
        raise ArchiveError(what, where=archive) from error
    except Exception as error:
        of_machine = isinstance(error, OSError) and error.errno and not isinstance(error, FileNotFoundError)
        if of_machine:
            error.add_note(f"while opening {archive}")
            raise
        raise ArchiveError(_fault(error), where=archive) from error


def _fault(error: Exception) -> str:
    first, _, rest = str(error).partition("\n")
    if isinstance(error, RuntimeError) and _WRONG_WEIGHTS.match(first):
        # PyTorch writes a line for each tensor; AllenNLP two lists of names, of which one may be empty.
        tensors = [line.strip() for line in rest.splitlines() if not line.endswith("[]")]
        return f"the weights do not fit the model of the config: {shorten('; '.join(tensors), 400)}"
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return f"too little memory to open it ({first})"
    if isinstance(error, pickle.UnpicklingError):
        return "PyTorch did not write the weights"
    return f"not a whole archive of a model ({type(error).__name__}: {first})"
