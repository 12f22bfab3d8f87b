"""
Registers the suite with AllenNLP when AllenNLP is there, and not before.

`import elmo_tasks` alone imports neither AllenNLP nor PyTorch. If AllenNLP is imported already, the suite is
registered immediately. If not, a finder waits for the modules of AllenNLP, and for those of ours that need
it: whoever first reads a name from one, as `from allennlp.models import Model` does, imports
`elmo_tasks.suite` before. So nobody holds a name of AllenNLP that the suite replaces.

With `ELMO_TASKS_PLUGIN=0`, the finder waits for such a module of ours alone: wherever spaCy is used, it
imports elmo_tasks for its components.

Python holds a lock for each module that a thread imports. A thread waits for `_lock` only while it imports no
module of AllenNLP or of ours; so the thread that has `_lock` and imports the suite can wait for any of them.
"""

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from itertools import dropwhile
from threading import RLock, local
from types import ModuleType
from typing import Any

LIGHT = ("common", "elmo", "embedding", "jobs", "libraries", "registration")
"""The packages and modules that can be imported without AllenNLP."""
HEAVY = (
    "common.old_keys",
    "common.strict_params",
    "elmo.token_embedder",
    "jobs.predict",
    "libraries.keyed_vectors",
)
"""The modules of these packages that need AllenNLP all the same."""
SUITE = "elmo_tasks.suite"
MOVED = {
    "elmo_tasks.elmo.exports": "elmo_tasks.elmo.export",
    "elmo_tasks.evaluation.mixes": "elmo_tasks.vectors.encoder",
    "elmo_tasks.predictors": "elmo_tasks.pipeline.predictor",
}
"""The present modules of those that the documents of version 0.4 name."""

_lock = RLock()
_thread = local()
"""Has the attribute `imports` in a thread that imports a module which the finder waits for."""


def install() -> None:
    """Imports the suite now if AllenNLP is imported and wants the plug-in, or else when it is needed."""
    is_wanted = os.environ.get("ELMO_TASKS_PLUGIN") != "0"
    is_imported = bool(sys.modules.get("allennlp"))
    with _lock:
        others = [finder for finder in sys.meta_path if type(finder).__module__ != __name__]
        sys.meta_path = [_Finder(("allennlp",) if is_wanted and not is_imported else ()), *others]
        if is_wanted and is_imported:
            import_suite()


def needs_allennlp(module: str) -> bool:
    """Returns whether a module of elmo_tasks, by its path within it, needs AllenNLP, and so the suite."""
    return module in HEAVY or not any(f"{module}.".startswith(f"{light}.") for light in LIGHT)


def import_suite() -> None:
    """Imports the suite, or waits until another thread has; not within the import of a part of it."""
    if not hasattr(_thread, "imports"):
        with _lock:
            import_module(SUITE)


class _Finder(MetaPathFinder):
    """Finds what the finders after it find, with a loader that has the suite imported."""

    def __init__(self, others: Sequence[str]) -> None:
        self._others = others
        """The packages that it waits for, besides ours."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        if package not in self._others and not (package == "elmo_tasks" and module):
            return None
        later = list(dropwhile(lambda finder: finder is not self, sys.meta_path))[1:]
        specs = (finder.find_spec(name, path, target) for finder in later)
        spec = next(filter(None, specs), None)
        if spec is None and name in MOVED:
            raise ModuleNotFoundError(f"{name} is now {MOVED[name]}", name=name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """A loader in front of another one, which other modules may share."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        """
        Executes a module by its own loader. If it needs AllenNLP, the suite is imported before others read
        its names.
        """
        name = module.__name__
        package, _, own = name.partition(".")
        is_light = package == "elmo_tasks" and not needs_allennlp(own)
        if package == "elmo_tasks" and not is_light and find_spec("allennlp") is None:
            raise ModuleNotFoundError(
                f"{name} needs AllenNLP, the extra elmo_tasks[allennlp]", name="allennlp"
            )
        module.__loader__ = module.__spec__.loader = self._loader  # type: ignore[union-attr]
        with _importing():
            self._loader.exec_module(module)
        if package == "elmo_tasks" and hasattr(module, "__path__"):
            vars(module).setdefault("__getattr__", partial(_name_the_module, name))
        if is_light:
            return
        if name == SUITE:
            # Another thread may be at some place in the old list.
            sys.meta_path = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
            for other in list(sys.modules.values()):
                if type(other) is _Waiting:
                    other.__class__ = ModuleType  # type: ignore[assignment]
        elif type(module) is ModuleType:
            module.__class__ = _Waiting


def _name_the_module(package: str, name: str) -> Any:
    """Raises the error of a name that a package lacks, with its module: version 0.4 had it in the package."""
    for place, module in list(sys.modules.items()):
        value = vars(module).get(name) if place.startswith(f"{package}.") else None
        if isinstance(value, type) and value.__module__ == place:
            raise ImportError(f"{name} is not in {package}, but in {place}", name=package)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


class _Waiting(ModuleType):
    """A module whose names are read after the suite is imported, except by modules that are imported."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__") and not hasattr(_thread, "imports"):
            import_suite()
            self.__class__ = ModuleType  # type: ignore[assignment]
        return ModuleType.__getattribute__(self, name)


@contextmanager
def _importing() -> Iterator[None]:
    """The import of a module that the finder waits for. The garbage collector would find nothing in it."""
    if hasattr(_thread, "imports"):
        yield
        return
    _thread.imports = True
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        del _thread.imports
        if collects:
            if not gc.get_freeze_count():
                # Moves the modules to the oldest generation, which is visited least.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
