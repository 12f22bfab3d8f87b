"""
Opening archives of models safely, whoever made them: an error names the damaged archive, and only classes
with registered names are built. `install` makes this AllenNLP's only loader, so that `allennlp evaluate` and
`predict` use it, too.
"""

import errno
import json
import os
import pickle
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike, fspath
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.common.params import parse_overrides
from allennlp.common.registrable import Registrable
from allennlp.common.util import SigTermReceived
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model, archival
from allennlp.models.archival import CONFIG_NAME, Archive

from elmo_tasks.common import strict_json
from elmo_tasks.common.devices import Device, chosen_device, gpu_index
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.unpacking import unpack
from elmo_tasks.compat.repairs import wrap
from elmo_tasks.compat.slim_archives import TRAINED, archive_path, complete, trained_archives


def local_archive(archive: str | PathLike[str]) -> Path:
    """Returns the local path of an archive, or the folder of a run; see `archive_path`."""
    path = Path(archive_path(archive)).expanduser()
    if not path.exists() and fspath(archive) in trained_archives():
        raise FileNotFoundError(f"file {archive} not found; did you mean {f'{TRAINED}{archive}'!r}?")
    # What fetches URLs takes half a second to import.
    return path if path.exists() else Path(cached_path(archive_path(archive)))


def packed_archive(archive: str | PathLike[str]) -> Path:
    """
    Returns the local path of an archive; for the folder of a run, that of its `model.tar.gz`.

    # Raises
    `ArchiveError`: there is no such file; and see `archive_path`.
    """
    path = local_archive(archive)
    if path.is_dir():
        path /= "model.tar.gz"
    if not path.is_file():
        raise ArchiveError(f"{archive}: found no file, expected a model.tar.gz")
    return path


TRUST = "ELMO_TASKS_TRUST_ARCHIVES"
"""The environment variable that, set to 1, lets the config of an archive name any Python object."""
_MAX_CONFIG = 1 << 24
_WRONG_WEIGHTS = re.compile(r"Error(\(s\) in)? loading state.dict for ")
_UNKNOWN_KEY = re.compile(r"got an unexpected keyword argument '\w+'$")
"""The words of Python, for a key of a class of AllenNLP that passes its keys on, such as `lazy` of 1.x."""
_NO_MEMORY = re.compile(r"can't allocate memory|Cannot allocate memory")
"""The words of PyTorch, for the memory of the processor, and of the operating system."""
_MACHINE_ERRNOS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EACCES,
    errno.EPERM,
    errno.EMFILE,
    errno.ENFILE,
    errno.EIO,
)
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_SAFE: dict[str, tuple[bool | None, ...]] = {"trust_remote_code": (False, None), "weights_only": (True,)}
"""Arguments with which transformers runs code from others, and the values for which it does not."""
_load_archive = archival.load_archive
_resolve_class_name = Registrable.resolve_class_name.__func__


class ArchiveError(ConfigurationError, ValueError):
    """An archive that is damaged or must not be opened; the message names it."""


class _Opening(NamedTuple):
    """The archive being opened, after the archives whose configs led to it."""

    archives: tuple[str, ...]
    trusted: frozenset[str]
    """The names in the user's overrides."""


_opening: ContextVar[_Opening | None] = ContextVar("the archive being opened", default=None)


def open_archive(
    archive_file: str | os.PathLike[str],
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
    registers; or a weight is not finite. `ConfigurationError`: there is no such GPU, the overrides are no
    Jsonnet, or the weights a folder. `OSError`: nothing is there, or the machine fails, for example with a
    full disk.
    """
    outer = _opening.get() or _Opening((), frozenset())
    archive_file = archive_path(archive_file)
    try:
        path = local_archive(archive_file)
    except FileNotFoundError as error:
        if not outer.archives:
            raise
        raise ArchiveError(
            f"{outer.archives[-1]}: found no {archive_file}, the archive whose model its own starts from"
        ) from error
    cuda_device = _gpu_index(cuda_device)
    override_block = parse_overrides(overrides) if isinstance(overrides, str) else overrides
    if weights_file is not None and not os.path.isfile(cached_path(weights_file)):
        raise ConfigurationError(f"{weights_file}: found a folder, expected a file of weights")
    with _errors_of(archive_file):
        if (real := os.path.realpath(path)) in outer.archives:
            raise ConfigurationError("found an archive whose config opens the archive itself")
        trusted = outer.trusted | {part for _, part in _values(override_block) if isinstance(part, str)}
        token = _opening.set(_Opening((*outer.archives, real), trusted))
        try:
            if os.path.isdir(path):
                check_config(path)
            archive = _load_archive(archive_file, cuda_device, overrides, weights_file)
            _check_numbers(archive.model)
            # An archive reads whole files, also if its model was trained on a part of one.
            return archive._replace(
                dataset_reader=_unsampled(archive.dataset_reader),
                validation_dataset_reader=_unsampled(archive.validation_dataset_reader),
            )
        finally:
            _opening.reset(token)


def _unsampled(reader: DatasetReader) -> DatasetReader:
    """Returns the reader of all data for an `elmo_sample`, and other readers as they are."""
    return getattr(reader, "wrapped_reader", reader)


def _gpu_index(device: Device) -> int:
    try:
        index = gpu_index(device)
        chosen_device(index, option="cuda_device")
    except ElmoError as error:
        raise ConfigurationError(str(error)) from error
    return index


def is_opening() -> bool:
    return _opening.get() is not None


@contextmanager
def extracted_archive(resolved_archive_file: str | os.PathLike[str], cleanup: bool = True) -> Iterator[str]:
    """
    Replaces AllenNLP's function of this name: the config is checked before anything reads it, see
    `check_config`. After an error no file remains.
    """
    folder = tempfile.mkdtemp()
    try:
        unpack(Path(resolved_archive_file), Path(folder))
        check_config(Path(folder))
        complete(Path(folder))
        yield folder
    except BaseException:
        cleanup = True
        raise
    finally:
        if cleanup:
            shutil.rmtree(folder, ignore_errors=True)


def _check_numbers(model: Model) -> None:
    """Refuses weights that are not finite. A buffer, such as a mask, may be infinite."""
    buffers = {name for name, _ in model.named_buffers()}
    for name, weight in model.state_dict().items():
        if isinstance(weight, torch.Tensor) and weight.is_floating_point():
            wrong = weight.isnan() if name in buffers else ~weight.isfinite()
            if wrong.any():
                index = tuple(wrong.nonzero()[0].tolist())
                raise ConfigurationError(
                    f"found {weight[index].item()} in the weight {name} at {index}, expected finite numbers"
                )


def check_config(folder: Path) -> None:
    """
    Checks the config of an unpacked archive.

    # Raises
    `ConfigurationError`: it is not plain JSON, as AllenNLP writes it; or, unless `TRUST` is set, it names
    something to build by a Python path, or lets a model hub's code run.
    """
    if not (folder / CONFIG_NAME).exists():
        return
    with open(folder / CONFIG_NAME, "rb") as file:
        content = file.read(_MAX_CONFIG + 1)
    if len(content) > _MAX_CONFIG:
        raise ConfigurationError(f"{CONFIG_NAME}: found more than {_MAX_CONFIG:,} bytes")
    try:
        config = strict_json.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ConfigurationError(
            f"{CONFIG_NAME}: found no JSON ({error}), expected the JSON that AllenNLP writes; for a config "
            "in Jsonnet that you trust, run `jsonnet config.jsonnet -o config.json`"
        ) from error
    if not isinstance(config, dict):
        raise ConfigurationError(f"{CONFIG_NAME}: found a {type(config).__name__}, expected an object")
    if not _trusts_archives():
        for path, value in _values(config):
            _check_value(path, value)


def _check_value(path: tuple[str, ...], value: Any) -> None:
    key = ".".join(path)
    if path[-1] in _SAFE and not any(value is safe for safe in _SAFE[path[-1]]):
        raise ConfigurationError(f"{key}: found {value!r}, which runs code from others; {_switch()}")
    # These are built when the archive is open already; `_resolve_registered` knows no archive then.
    late = path[0] in ("evaluation", "data_loader", "validation_data_loader")
    if isinstance(value, str) and path[0] != "trainer":  # nothing in it is built
        names_type = (path[-1] == "type" and "." in value) or (late and _DOTTED.fullmatch(value))
        if names_type and not any(value in registry for registry in Registrable._registry.values()):
            raise _unregistered(key, value)


def _values(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the values in JSON with the keys that lead to them; containers only for the keys of `_SAFE`."""
    if isinstance(value, dict | list) and not (path and path[-1] in _SAFE):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in items:
            yield from _values(part, (*path, str(key)))
    elif path:
        yield path, value


def _resolve_registered(cls: type[Registrable], name: str) -> Any:
    """
    Replaces AllenNLP's `resolve_class_name`, which imports whatever a dotted name says, while an archive is
    opened. A config may name a class by a mere string, which `check_config` cannot tell from other strings.
    """
    opening = _opening.get()
    if opening is not None and not _trusts_archives():
        registered = name in Registrable._registry[cls] or name in opening.trusted
        if not registered and "." in name:
            raise _unregistered(f"a {cls.__name__}", name)
    return _resolve_class_name(cls, name)


def _unregistered(key: str, name: str) -> ConfigurationError:
    return ConfigurationError(
        f"{key}: found {name!r}, expected a registered name (--include-package NAME registers a package's): "
        f"an archive may not name any Python object; {_switch()}"
    )


def _switch() -> str:
    return f"where you trust the archive as you trust a program, set {TRUST}=1"


def _trusts_archives() -> bool:
    return os.environ.get(TRUST) == "1"


@contextmanager
def _errors_of(archive: str | os.PathLike[str]) -> Iterator[None]:
    """Turns errors into an `ArchiveError` that names the archive, but for failures of the machine."""
    try:
        yield
    except (SigTermReceived, ArchiveError):
        raise
    except ConfigurationError as error:
        raise ArchiveError(f"{archive}: {error.message}") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS:
            error.add_note(f"while opening {archive}")
            raise
        raise ArchiveError(f"{archive}: {_fault(error)}") from error


def _fault(error: Exception) -> str:
    first, _, rest = str(error).partition("\n")
    if isinstance(error, RuntimeError) and _WRONG_WEIGHTS.match(first):
        # PyTorch writes a line for each tensor; AllenNLP two lists of names, of which one may be empty.
        tensors = [line.strip() for line in rest.splitlines() if not line.endswith("[]")]
        problem = shorten("; ".join(tensors), 400, placeholder="...")
        return f"found weights that do not fit the model of its config: {problem}"
    if isinstance(error, TypeError) and _UNKNOWN_KEY.search(first):
        return (
            f"found a config of another version of AllenNLP ({first}); expected the block without that key, "
            "by overrides that replace the whole block"
        )
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or _NO_MEMORY.search(first):
        return "found too little memory to open it"
    if isinstance(error, pickle.UnpicklingError):
        return "not a whole archive of a model (PyTorch did not write its weights, or the --weights-file)"
    return f"not a whole archive of a model ({type(error).__name__}: {first})"


def _vocabulary_from_files(
    stock: Callable[..., Vocabulary],
    cls: type[Vocabulary],
    directory: str | PathLike[str],
    *args: Any,
    **options: Any,
) -> Vocabulary:
    """Takes whatever names an archive, too: the folder of a run, or a name such as `elmo:ner`."""
    path = archive_path(directory)
    own = Path(path, "vocabulary")
    return stock(cls, own if own.is_dir() else path, *args, **options)


def install() -> None:
    """Replaces AllenNLP's loader, also in modules that have imported it already."""
    archival.extracted_archive = extracted_archive
    archival.cached_path = local_archive
    wrap(Vocabulary, "from_files", _vocabulary_from_files)
    Registrable.resolve_class_name = classmethod(_resolve_registered)
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("load_archive") is _load_archive:
            module.load_archive = open_archive  # type: ignore[attr-defined]
