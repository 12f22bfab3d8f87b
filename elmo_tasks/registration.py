"""
Registers the suite with AllenNLP when AllenNLP is there, and not before.

`import elmo_tasks` alone imports neither AllenNLP nor PyTorch. If AllenNLP is imported already, the suite is
registered immediately. If not, a finder waits for the first import of AllenNLP, or of one of our modules that
needs it, and imports `elmo_tasks.suite` first. So the suite is always imported as a whole and in one order,
and before anyone holds a name of AllenNLP that the suite replaces.

With `ELMO_TASKS_PLUGIN=0`, the finder waits for such a module of ours alone: wherever spaCy is used, it
imports elmo_tasks for its components.
"""

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

LIGHT = ("common", "elmo", "embedding", "jobs", "libraries", "registration", "suite")
"""The packages and modules that can be imported without AllenNLP; `suite` then imports it."""
HEAVY = ("common.strict_params", "elmo.token_embedder", "jobs.predict", "libraries.keyed_vectors")
"""The modules of these packages that need AllenNLP all the same."""


def install() -> None:
    """Imports the suite now if AllenNLP is imported and wants the plug-in, or else when it is needed."""
    if sys.modules.get("allennlp") and not _is_left_out():
        import_module("elmo_tasks.suite")
    else:
        sys.meta_path.insert(0, _Finder())


def _is_left_out() -> bool:
    return os.environ.get("ELMO_TASKS_PLUGIN") == "0"


def needs_allennlp(module: str) -> bool:
    """Returns whether a module of elmo_tasks, by its path within it, must come after the suite."""
    return module in HEAVY or not any(f"{module}.".startswith(f"{light}.") for light in LIGHT)


class _Finder(MetaPathFinder):
    """Finds what the finders after it find, with a loader that imports the suite first."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        is_allennlp = name == "allennlp" and not _is_left_out()
        if not is_allennlp and not (package == "elmo_tasks" and needs_allennlp(module)):
            return None
        later = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(name, path, target) for finder in later)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _SuiteFirst(self, spec.loader)
        return spec


class _SuiteFirst(Loader):
    """A loader in front of another one, which other modules may share."""

    def __init__(self, finder: _Finder, loader: Any) -> None:
        self._finder = finder
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        """Imports the suite, and then the module by its own loader; the import system takes that module."""
        name = module.__name__
        del sys.modules[name]
        sys.meta_path.remove(self._finder)
        # The garbage collector would find nothing, and visit all modules repeatedly.
        collects = gc.isenabled()
        gc.disable()
        try:
            import_module("elmo_tasks.suite")
            import_module(name)
        except BaseException as error:
            sys.meta_path.insert(0, self._finder)
            if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == "allennlp":
                raise ModuleNotFoundError(
                    f"{name} needs AllenNLP, the extra elmo_tasks[allennlp]", name="allennlp"
                ) from error
            raise
        finally:
            if collects:
                if not gc.get_freeze_count():
                    # Moves the modules to the oldest generation, which is visited least.
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()
