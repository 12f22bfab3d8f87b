"""
Archives of models: `open_archive`, which takes the place of AllenNLP's `load_archive`, slim archives, and the
archives that come trained with the project.

An archive must not run code of its maker. Its config is checked before anything is built from it: it names
classes by their registered names alone. While it is opened, nothing is fetched: libraries find the network as
if it were down, and take what is in their caches. Both hold unless the user trusts the archive (`TRUST`).

A slim archive holds the digest of the biLM that comes with the project in place of its weights, which are
added when the state dict is read. The archives that come trained are slim, and have names.
"""

import json
import os
import pickle
import re
import shutil
import socket
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from textwrap import shorten
from typing import Any, NoReturn

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.common.meta import META_NAME, Meta
from allennlp.common.params import Params, parse_overrides, with_overrides
from allennlp.common.registrable import Registrable
from allennlp.data import Vocabulary
from allennlp.models import Model, archival
from allennlp.models.archival import CONFIG_NAME, Archive
from allennlp.nn import util

from elmo_tasks.common.errors import ElmoError, did_you_mean_path, errors_as, nearest_name
from elmo_tasks.common.files import bundled, read_json_object, read_utf8, unpack
from elmo_tasks.common.machine import ChangeWhileUsed, Device, chosen_device, gpu_index
from elmo_tasks.common.strict_params import ConfigError, block_errors, jsonnet_errors
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, DEFAULT_WEIGHTS
from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.model import BiLmOptions
from elmo_tasks.elmo.token_embedder import ARCHIVED_WEIGHTS, archived_state

_WRONG_WEIGHTS = re.compile(r"Error(\(s\) in)? loading state.dict for ")
_vocabulary_from_files = Vocabulary.from_files.__func__
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
    with jsonnet_errors("overrides"):
        override_block = parse_overrides(overrides) if isinstance(overrides, str) else overrides
    if weights_file is not None:
        weights_file = cached_path(weights_file)
    outer, real = _archives_being_opened.get(), os.path.realpath(path)
    with archive_errors(archive_file), only_registered_names(override_block):
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
    content = _read_config(folder)
    with jsonnet_errors("overrides"):
        content = with_overrides(content, overrides) if overrides else content
    # To train, null is the same as no key.
    config = Params({key: value for key, value in content.items() if value is not None})
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
        meta.version = repr(meta.version)[1:-1]  # without the codes of a terminal
        archival._check_version_compatibility(name, meta)
    # An archive reads whole files, also if its model was trained on a part of one, by `elmo_sample`.
    reader, validation_reader = (getattr(reader, "wrapped_reader", reader) for reader in readers)
    return Archive(model, config, reader, validation_reader, meta)


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
        if isinstance(cause, _OfflineError):
            return f"{cause}; get it before, or, {_REMEDY}"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, ConfigurationError):
        return error.message
    if isinstance(error, ElmoError):
        return error.what
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


MAX_CONFIG = 1 << 22
"""The most bytes of the config of an archive."""
MAX_WORDS, MAX_WORD_BYTES = 4_000_000, 1 << 26
"""The most words of a vocabulary, and their bytes, unless the user trusts it. GloVe has 2.2 million."""
TRUST = "ELMO_TASKS_TRUST_ARCHIVES"
"""
The environment variable that, if it is 1, lets the config of an archive name any Python object, and things to
fetch.
"""
_STRING_OR_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*"?)|,(?=\s*[}\]])')
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_SAFE: dict[str, tuple[bool | None, ...]] = {
    "trust_remote_code": (False, None),
    "weights_only": (True,),
    **dict.fromkeys(("evalb_directory_path", "srl_eval_path", "vocab"), (None,)),
}
"""
The safe values of arguments with which transformers runs code from others, AllenNLP's models run a scorer by
a shell, and a module takes another vocabulary than its model's, where AllenNLP also writes a lock.
"""
_OF_SPACY = ("language", "model", "tokenizer")
"""The keys of a model of spaCy, which is a package."""
_resolve_class_name = Registrable.resolve_class_name.__func__
_trusted: ContextVar[frozenset[str] | None] = ContextVar("names that the user trusts", default=None)
"""The names in the overrides of the user, while an archive is opened; otherwise `None`."""


def is_opening_untrusted() -> bool:
    """Tells whether this thread is opening an archive, and the user has not set `TRUST`."""
    return _trusted.get() is not None and not _trusts_archives()


@contextmanager
def only_registered_names(overrides: dict[str, Any]) -> Iterator[None]:
    """
    Lets AllenNLP build registered classes alone inside the block, and those that the overrides name, and
    lets nothing use the network.
    """
    names = frozenset(part for _, part in _values(overrides) if isinstance(part, str))
    token = _trusted.set(names | (_trusted.get() or frozenset()))
    try:
        with _offline():
            yield
    finally:
        _trusted.reset(token)


class _OfflineError(ConnectionError):
    """Something in the config of an archive is not on this machine."""


def refuse_to_fetch(what: str) -> NoReturn:
    raise _OfflineError(f"its config needs {what}, and opening an archive fetches nothing")


def _refuse_hosts() -> Callable[[], None]:
    """Has every library find the network down, in the threads that open archives alone."""
    stock = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        if is_opening_untrusted():
            refuse_to_fetch(f"files from {host}")
        return stock(host, *args, **options)

    socket.getaddrinfo = getaddrinfo
    return partial(setattr, socket, "getaddrinfo", stock)


_offline = ChangeWhileUsed(_refuse_hosts)


@cache
def _take_cached_files() -> None:
    """Has `cached_path` take the files of an archive that is opened from its cache, without waiting."""
    from cached_path import _cached_path as cached_paths  # imports the clients of all stores

    stock = cached_paths.get_from_cache

    def get_from_cache(url: str, cache_dir: Any = None, *args: Any, **options: Any) -> Any:
        if not is_opening_untrusted():
            return stock(url, cache_dir, *args, **options)
        return cached_paths.find_latest_cached(url, cache_dir) or refuse_to_fetch(url), None

    cached_paths.get_from_cache = get_from_cache


def check_config(folder: Path) -> None:
    """
    Checks that the config of an unpacked archive is plain JSON, as AllenNLP writes it; and, unless `TRUST` is
    set, that it names nothing to build by a Python path, and lets no model hub's code run.
    """
    if not (folder / CONFIG_NAME).exists():
        return
    config = _read_config(folder)
    if not _trusts_archives():
        for path, value in _values(config):
            _check_value(path, value)
        _check_vocabulary(folder / "vocabulary")


def _read_config(folder: Path) -> dict[str, Any]:
    """Reads the config of an unpacked archive, as JSON with the commas at the ends that Jsonnet allows."""
    text = read_utf8(folder / CONFIG_NAME, max_bytes=MAX_CONFIG, where=CONFIG_NAME)
    remedy = "if it is Jsonnet that you trust, run `jsonnet config.jsonnet -o config.json`"
    with errors_as(ConfigError, f"{CONFIG_NAME} is not JSON", (ValueError, RecursionError), remedy=remedy):
        config = json.loads(_STRING_OR_LAST_COMMA.sub(lambda match: match[1] or "", text))
    if not isinstance(config, dict):
        raise ConfigError(f"{CONFIG_NAME} is not an object of JSON")
    return config


def _check_vocabulary(folder: Path) -> None:
    """Bounds the memory of a vocabulary, some 200 bytes a word: short words pack to a 20th of their size."""
    words = size = 0
    # AllenNLP reads all files, whatever their names.
    for path in filter(Path.is_file, folder.glob("*")):
        size += path.stat().st_size
        with open(path, "rb") as file:
            words += sum(block.count(b"\n") for block in iter(partial(file.read, 1 << 20), b""))
    if words > MAX_WORDS or size > MAX_WORD_BYTES:
        raise ConfigError(
            f"the vocabulary has {words:,} words and {size:,} bytes, more than {MAX_WORDS:,} or "
            f"{MAX_WORD_BYTES:,}",
            remedy=_REMEDY,
        )


def _check_value(path: tuple[str, ...], value: object) -> None:
    key = ".".join(path)
    if isinstance(value, str) and "://" in value:
        _take_cached_files()
    if path[-1] in _SAFE and not any(value is safe for safe in _SAFE[path[-1]]):
        raise ConfigError(f"an archive may not set it to {value!r}", key=key, remedy=_REMEDY)
    if isinstance(value, str) and len(path) > 1:
        if _is_device(value):
            raise ConfigError(f"an archive may not read {value}, which is no file", key=key, remedy=_REMEDY)
        if path[-1] in _OF_SPACY and _is_other_package(value):
            raise ConfigError(f"{value!r} is not a model of spaCy", key=key, remedy=_REMEDY)
    # These are built when the archive is open already; `resolve_registered` knows no archive then.
    late = path[0] in ("evaluation", "data_loader", "validation_data_loader")
    if isinstance(value, str) and path[0] != "trainer":  # nothing in it is built
        names_type = (path[-1] == "type" and "." in value) or (late and _DOTTED.fullmatch(value))
        if names_type and not any(value in registry for registry in Registrable._registry.values()):
            raise _unregistered(key, value)


def _is_device(name: str) -> bool:
    """Tells whether something like `/dev/zero`, which may have no end, is at a path."""
    path = os.path.expanduser(name.removeprefix("file://"))
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def _is_other_package(name: str) -> bool:
    """Tells whether spaCy would import an installed package by its name that is no model."""
    try:
        distribution(name)
    except (PackageNotFoundError, ValueError):
        return False
    registered = any(name in registry for registry in Registrable._registry.values())
    return not registered and name not in entry_points(group="spacy_models").names


def _values(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yields the values in JSON with the keys that lead to them; containers only for the keys of `_SAFE`."""
    if isinstance(value, dict | list) and not (path and path[-1] in _SAFE):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in items:
            yield from _values(part, (*path, str(key)))
    elif path:
        yield path, value


def resolve_registered(cls: type[Registrable], name: str) -> Any:
    """
    Replaces AllenNLP's `resolve_class_name`, which imports whatever a dotted name says. A config may name a
    class by a mere string, which `check_config` cannot tell from other strings.
    """
    trusted = _trusted.get()
    is_path = "." in name and name not in Registrable._registry[cls]
    if trusted is not None and is_path and name not in trusted and not _trusts_archives():
        raise _unregistered(f"a {cls.__name__}", name)
    return _resolve_class_name(cls, name)


_REMEDY = f"if you trust the archive as you trust a program, set {TRUST}=1"


def _unregistered(key: str, name: str) -> ConfigError:
    return ConfigError(
        f"{name!r} is not a registered name, and an archive may not name any Python object",
        key=key,
        remedy=f"use --include-package NAME for the package that registers it, or, {_REMEDY}",
    )


def _trusts_archives() -> bool:
    return os.environ.get(TRUST) == "1"


NOTE, MAX_NOTE = "bilm.json", 1 << 16
"""
The file of a slim archive that names its biLM: the digest, the version, the prefixes in the state dict. Its
size is enough for an ensemble of thousands.
"""
TRAINED = "elmo:"
"""Names of archives that come with the project begin so: `elmo:ner`."""
_read_state_dict = util.read_state_dict
CARDS = "models.json"
"""The file with the task, the data, the score and examples of each archive, in the same folder."""


def slim(folder: str | PathLike[str], output: Path, *, dtype: str, version: str) -> None:
    """
    Writes the content of an unpacked archive without its biLM, for this `version` of the project. A weight
    that the `dtype` float16 cannot hold keeps its type.

    # Raises
    `ConfigError`: the model has no biLM, or another one than comes with the project.
    """
    folder = Path(folder)
    weights_file = folder / ARCHIVED_WEIGHTS
    # Not mapped, since the file is written again
    state = torch.load(weights_file, map_location="cpu", weights_only=True) | missing_weights(weights_file)
    bilm = _bundled_bilm()
    ending = f"bilm.{next(iter(bilm.state_dict()))}"
    prefixes = [name.removesuffix(ending) for name in state if name.endswith(f".{ending}")]
    if not prefixes:
        raise ConfigError("the archive has no biLM")
    for name, weight in _named(bilm, prefixes).items():
        if name not in state or not torch.equal(state.pop(name), weight):
            raise ConfigError(f"{name} is not of the biLM that comes with the project, so it has to stay")
    if dtype == "float16":
        halves = {name: weight.half() for name, weight in state.items() if weight.dtype == torch.float32}
        state |= {name: half for name, half in halves.items() if half.isfinite().all()}
    torch.save(state, weights_file)
    note = {"digest": bilm.digest(), "version": version, "prefixes": prefixes}
    (folder / NOTE).write_text(json.dumps(note), encoding="utf-8")
    with tarfile.open(output, "w:gz") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name)


def whole_state(folder: str | PathLike[str], weights_file: str | PathLike[str]) -> dict[str, Any]:
    """Returns the state dict of an unpacked archive; see `archived_state` and `missing_weights`."""
    return archived_state(folder, weights_file) | missing_weights(weights_file)


def missing_weights(weights_file: str | PathLike[str]) -> dict[str, torch.Tensor]:
    """
    Returns the weights of the biLM that a slim archive leaves out; none for other archives. `ConfigError`:
    this version of the project has another biLM.
    """
    note_file = Path(weights_file).with_name(NOTE)
    if not note_file.exists():
        return {}
    note = read_json_object(note_file, max_bytes=MAX_NOTE)
    bilm = _bundled_bilm()
    if note["digest"] != bilm.digest():
        raise ConfigError(
            "the archive needs another biLM than this version of elmo_tasks has",
            remedy=f"open it with elmo_tasks {note['version']}",
        )
    return _named(bilm, note["prefixes"])


def read_whole_state(path: str | PathLike[str], *args: Any, **options: Any) -> dict[str, Any]:
    """Replaces AllenNLP's `read_state_dict`, and adds the `missing_weights`."""
    return _read_state_dict(path, *args, **options) | missing_weights(path)


def _bundled_bilm() -> FrozenBiLm:
    return FrozenBiLm.read(BiLmOptions.read(DEFAULT_OPTIONS), DEFAULT_WEIGHTS)


def _named(bilm: FrozenBiLm, prefixes: list[str]) -> dict[str, torch.Tensor]:
    return {
        f"{prefix}bilm.{name}": weight for prefix in prefixes for name, weight in bilm.state_dict().items()
    }


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
