"""
An archive must not run code of its maker. Its config is checked before anything is built from it: it names
classes by their registered names alone, and of AllenNLP's those that we know (`known_types`), also when
`evaluate` builds from it. While it is opened, nothing is fetched: libraries find the network as if it were
down, and take what is in their caches. All this holds unless the user trusts the archive (`TRUST`).
"""

import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any, NoReturn

import torch
from allennlp.common.registrable import Registrable
from allennlp.models.archival import CONFIG_NAME

from elmo_tasks.archives.known_types import is_known
from elmo_tasks.common.errors import errors_as
from elmo_tasks.common.files import read_utf8, refuse_special_files
from elmo_tasks.common.machine import ChangeWhileUsed
from elmo_tasks.common.strict_params import ConfigError

MAX_CONFIG = 1 << 22
"""The most bytes of the config of an archive."""
MAX_WORDS, MAX_WORD_BYTES = 4_000_000, 1 << 26
"""The most words of a vocabulary, and their bytes, unless the user trusts it. GloVe has 2.2 million."""
MAX_WORKERS = 64
"""The most processes with which the data of `evaluate` are read, unless the user trusts the config."""
MAX_MORE_NUMBERS, _NUMBERS_OF_A_TENSOR = 1 << 26, 1 << 12
"""
The most numbers that a config may make in addition to one for each byte of the weights, as much as four times
what they hold; and those that a tensor counts, however small.
"""
TRUST = "ELMO_TASKS_TRUST_ARCHIVES"
"""
The environment variable that, if it is 1, lets the config of an archive name any Python object, and things to
fetch.
"""
_STRING_OR_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*"?)|,(?=\s*[}\]])')
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_SAFE: dict[str, tuple[bool | str | None, ...]] = {
    "trust_remote_code": (False, None),
    "weights_only": (True,),
    **dict.fromkeys(("evalb_directory_path", "srl_eval_path", "vocab"), (None,)),
    **dict.fromkeys(("target_pretrain_file", "override_weights_file", "bert_model_name"), (None,)),
    "case_vocabulary": ("pretrained/english/vocab.txt", None),
}
"""
The safe values of arguments with which transformers runs code from others, AllenNLP's models run a scorer by
a shell, and a module takes another vocabulary than its model's, where AllenNLP also writes a lock; and of
those with which a known type reads a file, or asks a hub.
"""
_OF_SPACY = ("language", "model", "tokenizer")
"""The keys of a model of spaCy, which is a package."""
_resolve_class_name = Registrable.resolve_class_name.__func__
_trusted: ContextVar[frozenset[str] | None] = ContextVar("names that the user trusts", default=None)
"""The names in the overrides of the user, while something is built from an archive; otherwise `None`."""
_numbers_left: ContextVar[list[int]] = ContextVar("how many numbers a model may still make")
_opening: ContextVar[bool] = ContextVar("an archive is being opened", default=False)


def is_opening_untrusted() -> bool:
    """Tells whether this thread is opening an archive, and the user has not set `TRUST`."""
    return _opening.get() and not _trusts_archives()


@contextmanager
def only_known_types(overrides: dict[str, Any]) -> Iterator[None]:
    """Lets AllenNLP build only types that we know inside the block, and those that the overrides name."""
    names = frozenset(part for _, part in _values(overrides) if isinstance(part, str))
    token = _trusted.set(names | (_trusted.get() or frozenset()))
    try:
        yield
    finally:
        _trusted.reset(token)


@contextmanager
def offline() -> Iterator[None]:
    """Lets nothing of this thread use the network inside the block."""
    token = _opening.set(True)
    try:
        with _hosts_refused():
            yield
    finally:
        _opening.reset(token)


def _count_numbers() -> Callable[[], None]:
    """Has every module report its tensors before it fills them with numbers."""

    def count(module: torch.nn.Module, name: str, tensor: torch.Tensor | None) -> None:
        if tensor is None or (left := _numbers_left.get(None)) is None:
            return
        left[0] -= tensor.numel() + _NUMBERS_OF_A_TENSOR
        if left[0] < 0:
            raise ConfigError(
                f"the config makes a model that is larger than the weights of the archive: {name} of a "
                f"{type(module).__name__} has the shape {[*tensor.shape]}",
                remedy=REMEDY,
            )

    hooks = torch.nn.modules.module
    undo = ExitStack()
    undo.callback(hooks.register_module_parameter_registration_hook(count).remove)
    undo.callback(hooks.register_module_buffer_registration_hook(count).remove)
    return undo.close


_numbers_counted = ChangeWhileUsed(_count_numbers)


@contextmanager
def bounded_by(weights_file: Path) -> Iterator[None]:
    """Bounds the model that is made inside the block by the size of its weights, unless `TRUST` is set."""
    size = weights_file.stat().st_size if weights_file.exists() else 0
    token = _numbers_left.set([size + MAX_MORE_NUMBERS])
    try:
        with nullcontext() if _trusts_archives() else _numbers_counted():
            yield
    finally:
        _numbers_left.reset(token)


class OfflineError(ConnectionError):
    """Something in the config of an archive is not on this machine."""


def refuse_to_fetch(what: str) -> NoReturn:
    raise OfflineError(f"its config needs {what}, and opening an archive fetches nothing")


def _refuse_hosts() -> Callable[[], None]:
    """Has every library find the network down, in the threads that open archives alone."""
    stock = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        if is_opening_untrusted():
            refuse_to_fetch(f"files from {host}")
        return stock(host, *args, **options)

    socket.getaddrinfo = getaddrinfo
    return partial(setattr, socket, "getaddrinfo", stock)


_hosts_refused = ChangeWhileUsed(_refuse_hosts)


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
    Checks that the files of an unpacked archive are such, and its config plain JSON, as AllenNLP writes it;
    and, unless `TRUST` is set, that it names nothing to build by a Python path, and lets no model hub's code
    run.
    """
    refuse_special_files([*folder.glob("*"), *folder.glob("vocabulary/*")])
    if not (folder / CONFIG_NAME).exists():
        return
    config = read_config(folder)
    if not _trusts_archives():
        for path, value in _values(config):
            _check_value(path, value)
        _check_vocabulary(folder / "vocabulary")


def read_config(folder: Path) -> dict[str, Any]:
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
            remedy=REMEDY,
        )


def _check_value(path: tuple[str, ...], value: object) -> None:
    key = ".".join(path)
    if isinstance(value, str) and "://" in value:
        _take_cached_files()
    if path[-1] in _SAFE and not any(value == safe and type(value) is type(safe) for safe in _SAFE[path[-1]]):
        raise ConfigError(f"an archive may not set it to {value!r}", key=key, remedy=REMEDY)
    if path[-1] == "num_workers" and isinstance(value, int | float) and value > MAX_WORKERS:
        raise ConfigError(f"an archive may not start {value:,} processes", key=key, remedy=REMEDY)
    if isinstance(value, str) and len(path) > 1:
        if _is_device(value):
            raise ConfigError(f"an archive may not read {value}, which is not a file", key=key, remedy=REMEDY)
        if path[-1] in _OF_SPACY and _is_other_package(value):
            raise ConfigError(f"{value!r} is not a model of spaCy", key=key, remedy=REMEDY)
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
    """Tells whether a name is that of an installed package, not of a model, which spaCy would import."""
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
    if trusted is not None and name not in trusted and not _trusts_archives():
        key = f"a {cls.__name__}"
        of_name, _ = Registrable._registry[cls].get(name, (None, None))
        if of_name is None and "." in name:
            raise _unregistered(key, name)
        # Other packages are the user's.
        if of_name and of_name.__module__.startswith("allennlp") and not is_known(cls.__name__, name):
            raise ConfigError(
                f"an archive may not build {name!r}, which may read or fetch what its config names",
                key=key,
                remedy=REMEDY,
            )
    return _resolve_class_name(cls, name)


REMEDY = f"if you trust the archive as you trust a program, set {TRUST}=1"


def _unregistered(key: str, name: str) -> ConfigError:
    return ConfigError(
        f"{name!r} is not a registered name, and an archive may not name any Python object",
        key=key,
        remedy=f"use --include-package NAME for the package that registers it, or, {REMEDY}",
    )


def _trusts_archives() -> bool:
    return os.environ.get(TRUST) == "1"
