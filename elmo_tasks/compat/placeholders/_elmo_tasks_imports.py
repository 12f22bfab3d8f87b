"""
Imports of AllenNLP without packages that text does not need, and later for packages that take seconds.

AllenNLP imports torchvision and fairscale wherever it is imported itself; and with it come spaCy,
transformers, the clients of cached_path's stores, nltk, SciPy's statistics and scikit-learn. A `.pth` file
calls `install` when Python starts, before any import of AllenNLP. While a module of `IMPORTING` is executed
later, its import statements find a placeholder for a package that is not installed, and a `Deferred` for one
of `LATER`. Neither is on `sys.path` or in `sys.modules`, so that `importlib.util.find_spec("torchvision")`
tells the truth, and the imports of other modules are what they were.

The finder also sees the first import of AllenNLP or of elmo_tasks, and tells OpenMP to wait briefly, and a
command of AllenNLP to log warnings alone, except for two that say what they found in the log alone.
"""

import builtins
import gc
import os
import sys
from importlib.util import find_spec
from threading import Lock

IMPORTING = ("allennlp", "allennlp_models", "cached_path", "rouge")
"""The packages whose modules import what they use only inside functions, or to derive a class from."""
LATER = (
    *("cached_path", "conllu", "ftfy", "huggingface_hub", "nltk", "pkg_resources", "regex", "rich", "scipy"),
    *("sklearn", "spacy", "tensorboardX", "transformers"),
)
"""Packages that modules of others import when they use them."""
TOOL = "allennlp_models.rc.tools.narrativeqa"
"""A tool that downloads NLTK's data when it is imported. It is executed when it is asked for a name."""
CLIENTS = "cached_path.schemes"
"""The clients of stores, which their package imports when it needs them."""
COMMAND = ("allennlp", "allennlp.commands", "allennlp_server")
"""
The modules that import most of what an `allennlp` command needs, the last one this suite. The garbage
collector would find nothing in them, and would take a quarter of the start.
"""
SPINS = "5000"
"""
How often a thread of OpenMP looks for work before it sleeps; libgomp's default is 300,000, some milliseconds.
With 1,000, ELMo is slower on a quiet machine.
Where other programs want the processor, such threads keep it from those that compute.
"""
_RUNNING = Lock()
"""Guards `_running`, the number of modules that are executed, in several threads."""
_running = 0
_stock_import = builtins.__import__


class Finder:
    """Finds these modules as the later finders do, with a loader of our own."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name in ("allennlp", "elmo_tasks"):
            _wait_briefly()
            shows_log = "test-install" in sys.argv or "--dry-run" in sys.argv
            of_plugin = _in_command() and os.environ.get("ELMO_TASKS_PLUGIN") != "0"
            if name == "allennlp" and of_plugin and not shows_log:
                os.environ.setdefault("ALLENNLP_LOG_LEVEL", "WARNING")
        if name == "allennlp" and find_spec("checklist") is None:
            # AllenNLP looks for it before each module that it imports; now Python knows that it is missing.
            sys.modules["checklist"] = None  # type: ignore[assignment]
        if name != "allennlp_server" and name.partition(".")[0] not in IMPORTING:
            return None
        later = sys.meta_path[sys.meta_path.index(Finder) + 1 :]
        specs = (finder.find_spec(name, path, target) for finder in later)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def _wait_briefly():  # type: ignore[no-untyped-def]
    """Sets `GOMP_SPINCOUNT`, which libgomp reads when PyTorch loads it, where the user has set no policy."""
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys() and "torch" not in sys.modules:
        os.environ["GOMP_SPINCOUNT"] = SPINS


class _Loader:
    """Executes a module with imports of our own; otherwise it is the loader that was found."""

    def __init__(self, loader):  # type: ignore[no-untyped-def]
        self._loader = loader

    def __getattr__(self, name):  # type: ignore[no-untyped-def]
        return getattr(self._loader, name)

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        module.__loader__ = module.__spec__.loader = self._loader
        if module.__name__ == TOOL:
            vars(module)["_execute"] = self._loader.exec_module
            module.__class__ = _Postponed
            return
        execute = _without_collection if module.__name__ in COMMAND and _in_command() else _execute
        execute(self._loader.exec_module, module)


class _Postponed(type(sys)):  # type: ignore[misc]
    """A module that is executed when it is first asked for a name."""

    def __getattr__(self, name):  # type: ignore[no-untyped-def]
        if name.startswith("__") and name.endswith("__"):
            return super().__getattribute__(name)  # an AttributeError
        execute = vars(self).pop("_execute")
        self.__class__ = type(sys)
        _execute(execute, self)
        return getattr(self, name)


def _execute(execute, module):  # type: ignore[no-untyped-def]
    """Executes a module with `_import` in place of Python's function, which stays while any is executed."""
    global _running, _stock_import
    with _RUNNING:
        if not _running:
            _stock_import, builtins.__import__ = builtins.__import__, _import
        _running += 1
    try:
        execute(module)
    finally:
        with _RUNNING:
            _running -= 1
            if not _running:
                builtins.__import__ = _stock_import


def _without_collection(execute, module):  # type: ignore[no-untyped-def]
    """Executes a module with the garbage collector off, and freezes the objects that it made."""
    gc.disable()
    try:
        _execute(execute, module)
    finally:
        gc.enable()
    gc.freeze()


def _in_command():  # type: ignore[no-untyped-def]
    """Returns whether Python runs `allennlp`, or looks for the module of its option `-m`."""
    folder, name = os.path.split(sys.argv[0] if sys.argv else "")
    return name in ("-m", "allennlp", "allennlp.exe") or os.path.basename(folder) == "allennlp"


def _import(name, globals=None, locals=None, fromlist=(), level=0):  # type: ignore[no-untyped-def]
    module = (globals or {}).get("__name__", "") if locals is globals else ""  # not in a function
    own = module.partition(".")[0]
    if own not in IMPORTING or module.startswith(f"{CLIENTS}."):
        return _stock_import(name, globals, locals, fromlist, level)
    path = f"{globals['__package__']}.{name}" if level else name
    package = path.partition(".")[0]
    if path in (CLIENTS, TOOL) or (package in LATER and package != own):
        from _elmo_tasks_stand_ins import Deferred

        return Deferred(path if fromlist else package)
    try:
        return _stock_import(name, globals, locals, fromlist, level)
    except ModuleNotFoundError as error:
        from _elmo_tasks_stand_ins import placeholders

        if error.name not in placeholders:
            raise
        return placeholders[name if fromlist else error.name]


def install() -> None:
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
