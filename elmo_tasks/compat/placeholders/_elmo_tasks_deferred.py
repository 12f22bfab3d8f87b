"""
The stand-ins, in the modules of `_elmo_tasks_imports`, for packages that are imported when they are
used.
"""

import builtins
import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class Deferred:
    """
    A module, or a name in one, by its dotted path. It is imported when it is called, indexed or asked for its
    version; when the first instance of a class derived from it is made; and, if its package is imported
    already, when an object is tested for being an instance of it.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    @functools.cached_property
    def _target(self) -> Any:
        return pkgutil.resolve_name(self._path)

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return self._target.__version__
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        part = vars(self)[name] = Deferred(f"{self._path}.{name}")
        return part

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._target(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self._target[key]

    def __instancecheck__(self, value: Any) -> bool:
        # A class that nobody has imported has no instances.
        return self._path.partition(".")[0] in sys.modules and isinstance(value, self._target)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:
        """Returns a base class that the real one replaces when the first instance is made."""

        def start(instance: Any, *args: Any, **kwargs: Any) -> None:
            for derived in type(instance).__mro__:
                if base in derived.__bases__:
                    derived.__bases__ = tuple(self._target if b is base else b for b in derived.__bases__)
            self._target.__init__(instance, *args, **kwargs)

        base = type(self._path, (bases[0].__base__,), {"__init__": start})
        return (base,)

    def __repr__(self) -> str:
        return f"<{self._path}, imported at its first use>"


def draft(name: str, load: Callable[..., Any]) -> ModuleType:
    """
    Returns a stand-in that exports a postponed module's names without loading its dependencies: the module,
    executed here with the imports of the deferred module that imports it.
    """
    module = ModuleType(name)
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": load}
    loader: Any = importlib.import_module(name).__spec__.loader  # type: ignore[union-attr]
    exec(loader.get_code(name), vars(module))
    return module


class _Postponed(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        execute = vars(self).pop("_execute")
        self.__class__ = ModuleType
        execute(self)
        return getattr(self, name)


def postpone(module: ModuleType, execute: Callable[[ModuleType], None]) -> None:
    """Executes a module when it is first asked for a name."""
    vars(module)["_execute"] = execute
    module.__class__ = _Postponed
