"""
The stand-ins for packages that are not installed, in the modules of `_elmo_tasks_imports`. A placeholder can
be imported; the first real use raises `NotInstalledError`.
"""

from types import ModuleType
from typing import Any, NoReturn


class NotInstalledError(ImportError):
    """
    A package that has only a placeholder was used. It is an ImportError, against which code guards its use of
    optional packages.
    """


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
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        _refuse(f"{self.__name__}.{name}")


class _Unusable(type):
    """A class that can be imported, derived from and tested against, and no more."""

    __module_path__: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(cls.__module_path__)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        _refuse(f"{cls.__module_path__}.{name}")


def _unusable(module: str, name: str) -> Any:
    """Returns a stand-in for a class or function that is imported by name."""
    namespace = {"__module__": module, "__module_path__": f"{module}.{name}"}
    return _Unusable(name, (), namespace)


_NAMES: dict[str, tuple[str, ...]] = {
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
placeholders = {name: _Placeholder(name) for name in _NAMES}
"""The placeholders by name, each with the names that AllenNLP imports; a package precedes its modules."""

for module_name, placeholder in placeholders.items():
    for name in _NAMES[module_name]:
        setattr(placeholder, name, _unusable(module_name, name))
    package, _, last = module_name.rpartition(".")
    if package:
        setattr(placeholders[package], last, placeholder)
