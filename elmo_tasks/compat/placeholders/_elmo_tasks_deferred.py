"""What stands, in the modules that `_elmo_tasks_imports` names, for what is imported at its first use."""

import functools
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import Any


class Deferred:
    """
    A module, or something in one, by its dotted path. It is imported when it is called, indexed, or when
    something is tested for being an instance of it.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    @functools.cached_property
    def _target(self) -> Any:
        return pkgutil.resolve_name(self._path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Deferred(f"{self._path}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._target(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self._target[key]

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self._target)

    def __repr__(self) -> str:
        return f"<{self._path}, imported at its first use>"


class _Postponed(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        execute = vars(self).pop("_execute")
        self.__class__ = ModuleType
        execute(self)
        return getattr(self, name)


def postpone(module: ModuleType, execute: Callable[[ModuleType], None]) -> None:
    """Has a module executed when it is first asked for a name."""
    vars(module)["_execute"] = execute
    module.__class__ = _Postponed
