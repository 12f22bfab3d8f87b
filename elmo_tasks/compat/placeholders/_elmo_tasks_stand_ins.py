"""
The stand-ins, in the modules of `_elmo_tasks_imports`: placeholders for packages that are not installed, and
names of packages that are imported when they are used.

A placeholder can be imported; the first real use raises `NotInstalledError`.
"""

import functools
import os
import pkgutil
import sys
from types import ModuleType
from typing import Any, NoReturn


class NotInstalledError(ImportError):
    """The error of using a placeholder, an ImportError, against which code guards itself."""


def _refuse(name: str) -> NoReturn:
    package = name.partition(".")[0]
    raise NotInstalledError(
        f"{name} was used, but {package} is not installed: elmo_tasks supplies a placeholder, "
        f"because AllenNLP imports {package} although models of text do not need it. "
        f"To use it, install a build that matches your PyTorch: pip install {package}",
        name=package,
    )


class _Placeholder(ModuleType):
    """A module that refuses everything but the names that tools probe for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            return super().__getattribute__(name)  # an AttributeError
        _refuse(f"{self.__name__}.{name}")


def _unusable(module: str, name: str) -> type:
    """Returns a class that can be derived from, and refuses to be made or called."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(f"{module}.{name}")

    return type(name, (), {"__module__": module, "__new__": refuse})


_IMPORTED_NAMES: dict[str, tuple[str, ...]] = {
    "torchvision": (),
    "torchvision.ops": (),
    "torchvision.ops.boxes": (),
    "fairscale": (),
    "fairscale.nn": ("FullyShardedDataParallel",),
    "fairscale.nn.checkpoint": ("checkpoint_wrapper",),
    "fairscale.nn.misc": ("FlattenParamsWrapper",),
    "fairscale.nn.wrap": ("enable_wrap", "wrap"),
    "fairscale.optim": (),
    "fairscale.optim.grad_scaler": ("GradScaler",),
}
placeholders = {name: _Placeholder(name) for name in _IMPORTED_NAMES}
"""The placeholders by name, each with the names that AllenNLP imports; a package precedes its modules."""

for module_name, placeholder in placeholders.items():
    for name in _IMPORTED_NAMES[module_name]:
        setattr(placeholder, name, _unusable(module_name, name))
    package, _, last = module_name.rpartition(".")
    if package:
        setattr(placeholders[package], last, placeholder)


@functools.cache
def adam_w() -> Any:
    """Returns PyTorch's AdamW with the arguments of the class that transformers dropped in 4.49."""
    import torch
    from allennlp.common.checks import ConfigurationError

    class AdamW(torch.optim.AdamW):
        def __init__(self, params: Any, *, correct_bias: bool = True, **options: Any) -> None:
            if not correct_bias:
                raise ConfigurationError(
                    "trainer.optimizer.correct_bias is false, which PyTorch's AdamW cannot do; "
                    "leave it out, or install transformers<4.49"
                )
            super().__init__(params, **options)

    return AdamW


def resource_filename() -> Any:
    """Returns a function for paths next to a module, like the one in pkg_resources (setuptools before 82)."""
    return lambda module, name: os.path.join(os.path.dirname(sys.modules[module].__file__ or ""), name)


_DROPPED = {"pkg_resources.resource_filename": resource_filename, "transformers.AdamW": adam_w}
"""Names that are no longer in the newest version of their package, and what makes their substitutes."""


class Deferred:
    """
    A module, or a name in one, by its dotted path. It is imported when it is called, indexed or asked for its
    version; when the first instance of a class derived from it is made; and, if its package is imported
    already, when an object is tested for being an instance of it. Its package may have dropped it since, see
    `_DROPPED`.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    @functools.cached_property
    def _target(self) -> Any:
        try:
            return pkgutil.resolve_name(self._path)
        except (ImportError, AttributeError) as error:
            if self._path in _DROPPED:
                return _DROPPED[self._path]()
            if isinstance(error, ImportError):
                raise
            from allennlp.common.checks import ConfigurationError

            package, _, name = self._path.partition(".")
            raise ConfigurationError(
                f"this version of {package} has no {name}, which AllenNLP uses; install an older {package}"
            ) from error

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return self._target.__version__
        if name.startswith("__") and name.endswith("__"):
            return super().__getattribute__(name)  # an AttributeError
        part = vars(self)[name] = Deferred(f"{self._path}.{name}")
        return part

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._target(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self._target[key]

    def __instancecheck__(self, value: Any) -> bool:
        # A class has no instances before its package is imported.
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
