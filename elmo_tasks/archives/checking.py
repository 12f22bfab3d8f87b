"""
The check of an archive's config before anything is built from it: an archive must not run code of its maker.

It names classes by their registered names alone, unless the user trusts the archive (`TRUST`).
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from allennlp.common.registrable import Registrable
from allennlp.models.archival import CONFIG_NAME

from elmo_tasks.common.strict_params import ConfigError

TRUST = "ELMO_TASKS_TRUST_ARCHIVES"
"""The environment variable that, if it is 1, lets the config of an archive name any Python object."""
_MAX_CONFIG = 1 << 24
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_SAFE: dict[str, tuple[bool | None, ...]] = {"trust_remote_code": (False, None), "weights_only": (True,)}
"""Arguments with which transformers runs code from others, and the values for which it does not."""
_resolve_class_name = Registrable.resolve_class_name.__func__
_trusted: ContextVar[frozenset[str] | None] = ContextVar("names that the user trusts", default=None)
"""The names in the overrides of the user, while an archive is opened; otherwise `None`."""


def is_opening() -> bool:
    """Tells whether this thread is opening an archive."""
    return _trusted.get() is not None


@contextmanager
def only_registered_names(overrides: dict[str, Any]) -> Iterator[None]:
    """Lets AllenNLP build registered classes alone inside the block, and those that the overrides name."""
    names = frozenset(part for _, part in _values(overrides) if isinstance(part, str))
    token = _trusted.set(names | (_trusted.get() or frozenset()))
    try:
        yield
    finally:
        _trusted.reset(token)


def check_config(folder: Path) -> None:
    """
    Checks the config of an unpacked archive.

    # Raises
    `ConfigError`: it is not plain JSON, as AllenNLP writes it; or, unless `TRUST` is set, it names something
    to build by a Python path, or lets a model hub's code run.
    """
    if not (folder / CONFIG_NAME).exists():
        return
    with open(folder / CONFIG_NAME, "rb") as file:
        content = file.read(_MAX_CONFIG + 1)
    if len(content) > _MAX_CONFIG:
        raise ConfigError(f"{CONFIG_NAME} has more than {_MAX_CONFIG:,} bytes")
    try:
        config = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{CONFIG_NAME} is not JSON ({error})",
            remedy="if it is Jsonnet that you trust, run `jsonnet config.jsonnet -o config.json`",
        ) from error
    if not isinstance(config, dict):
        raise ConfigError(f"{CONFIG_NAME} is not a JSON object")
    if not _trusts_archives():
        for path, value in _values(config):
            _check_value(path, value)


def _check_value(path: tuple[str, ...], value: Any) -> None:
    key = ".".join(path)
    if path[-1] in _SAFE and not any(value is safe for safe in _SAFE[path[-1]]):
        raise ConfigError(f"{value!r} runs code from others", key=key, remedy=_REMEDY)
    # These are built when the archive is open already; `resolve_registered` knows no archive then.
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
