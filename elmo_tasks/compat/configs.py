"""Reading configs: with gojsonnet, too, by the names of the project, and with errors of one line."""

import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from allennlp.common import Params
from allennlp.common import params as params_module

from elmo_tasks.common.files import local_or_bundled
from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.compat.repairs import wrap


def read_configs() -> None:
    if find_spec("_jsonnet") is None and find_spec("_gojsonnet") is not None:
        # The same functions, with wheels for ARM Linux, where jsonnet has none
        for name in ("evaluate_file", "evaluate_snippet"):
            setattr(params_module, name, getattr(import_module("_gojsonnet"), name))
    wrap(params_module, "cached_path", _cached_path)
    wrap(Params, "from_file", _from_file)


def _cached_path(stock: Callable[..., str], path: str | os.PathLike[str], *args: Any, **options: Any) -> str:
    """Finds a config of the user, or of the project, without the clients of all stores."""
    path = local_or_bundled(path)
    return path if os.path.exists(path) else stock(path, *args, **options)


def _from_file(
    stock: Callable[..., Params], cls: type[Params], path: str | os.PathLike[str], *args: Any, **options: Any
) -> Params:
    """Raises a `ConfigError` for what is not Jsonnet, and for overrides that do not fit the config."""
    try:
        return stock(cls, path, *args, **options)
    except (RuntimeError, ValueError) as error:
        raise ConfigError(" ".join(str(error).split()), where=path) from error
