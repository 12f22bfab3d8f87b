"""What every placeholder package is made of.

AllenNLP imports torchvision and fairscale wherever it is imported itself, for images and for
sharded models. Text needs neither. A placeholder can be imported; the first real use raises
`NotInstalledError`. A `.pth` file puts the folder of placeholders behind site-packages on
`sys.path`, so that the real package, once installed, is the one that is found.
"""

from collections.abc import Callable
from typing import Any, NoReturn


class NotInstalledError(ImportError):
    """A package that has only a placeholder was used.

    An ImportError, for code that takes a package as optional guards its use against just that.
    """


def _refuse(name: str) -> NoReturn:
    package = name.partition(".")[0]
    raise NotInstalledError(
        f"{name} was used, but {package} is not installed: elmo_tasks supplies a placeholder, "
        f"because AllenNLP imports {package} although models of text do not need it. "
        f"To use it, install a build that matches your PyTorch: pip install {package}",
        name=package,
    )


def attributes_of(module: str) -> Callable[[str], Any]:
    """A module-level `__getattr__` that refuses everything but the names that tools probe for."""

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _refuse(f"{module}.{name}")

    return __getattr__


class _Unusable(type):
    """A class to import, to derive from and to test instances against, and no more."""

    __module_path__: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(cls.__module_path__)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        _refuse(f"{cls.__module_path__}.{name}")


def unusable(module: str, name: str) -> Any:
    """Stands for a class or function that is imported by name."""
    namespace = {"__module__": module, "__module_path__": f"{module}.{name}"}
    return _Unusable(name, (), namespace)
