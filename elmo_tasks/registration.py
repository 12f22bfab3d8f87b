"""
Registers the suite with AllenNLP when AllenNLP is there, and not before.

`import elmo_tasks` alone imports neither AllenNLP nor PyTorch. If AllenNLP is imported already, the suite is
registered at once. If not, a finder waits for the first import of AllenNLP, or of one of our modules that
needs it, and has `elmo_tasks.suite` imported first. So the whole suite comes in one order, whatever was asked
for, and before anyone has a name of AllenNLP that the suite replaces.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

LIGHT = (
    "common",
    "elmo.embedder",
    "elmo.files",
    "elmo.inference",
    "elmo.model",
    "embedding",
    "jobs",
    "libraries",
    "registration",
    "suite",
)
"""The packages and modules that need no AllenNLP, beside the package `elmo` itself. `suite` brings it."""
NEED_ALLENNLP = ("common.strict_params", "common.unpacking")
"""The modules of these packages that need it all the same."""


def install() -> None:
    if sys.modules.get("allennlp"):
        import_module("elmo_tasks.suite")
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds what the later finders do."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _brings_suite(name):
            return None
        later = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(name, path, target) for finder in later)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            loader.exec_module = self._import_suite
        return spec

    def _import_suite(self, module: ModuleType) -> None:
        """In the place of executing `module`; the import system takes what is in `sys.modules` then."""
        name = module.__name__
        del sys.modules[name]
        sys.meta_path.remove(self)
        try:
            import_module("elmo_tasks.suite")
            import_module(name)
        except BaseException as error:
            sys.meta_path.insert(0, self)
            if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == "allennlp":
                raise ModuleNotFoundError(
                    f"{name} needs AllenNLP, the extra elmo_tasks[allennlp]", name="allennlp"
                ) from error
            raise


def _brings_suite(name: str) -> bool:
    package, _, module = name.partition(".")
    if package != "elmo_tasks":
        return name == "allennlp"
    if module in NEED_ALLENNLP:
        return True
    return module != "elmo" and not any(f"{module}.".startswith(f"{light}.") for light in LIGHT)
