"""
Imports of AllenNLP without packages that text does not need, and later for packages that take seconds.

AllenNLP imports torchvision, fairscale, h5py and lmdb wherever it is imported itself; and with it come spaCy,
transformers, the clients of cached_path's stores, nltk, SciPy's statistics and scikit-learn. The import
statements at the top of a module of `IMPORTING` find a placeholder for a package that is not installed, and a
`Deferred` for one of `LATER`. A placeholder can be imported; the first real use raises an ImportError.

Neither is in `sys.modules`, and `builtins` stays as it is. An import statement takes `__import__` from the
`__builtins__` of its module: there `_Loader` puts another one while the module is executed. Other modules and
threads would see stand-ins in `sys.modules`, and `importlib.util.LazyLoader` loads at once what
`from x import y` names, as AllenNLP does nearly everywhere.

A finder imports this module while Python holds the lock of all imports. So it imports at the top what every
Python has imported when it starts: another thread may hold the lock of any other module.
"""

import builtins
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from types import ModuleType
    from typing import Any, NoReturn
else:
    ModuleType = type(sys)

IMPORTING = ("allennlp", "allennlp_models", "cached_path", "rouge")
"""The packages whose modules import what they use only inside functions, or to derive a class from."""
LATER = (
    *("cached_path", "conllu", "ftfy", "huggingface_hub", "nltk", "pkg_resources", "regex", "rich", "scipy"),
    *("sklearn", "spacy", "tensorboardX", "transformers"),
)
"""Packages that modules of others import when they use them."""
TOOL = "allennlp_models.rc.tools.narrativeqa"
"""A tool that downloads NLTK's data when it is imported."""
CLIENTS = "cached_path.schemes"
"""The clients of stores, which their package imports when it needs them."""
SPINS = "5000"
"""
How often a thread of OpenMP looks for work before it sleeps; libgomp's default is 300,000, some milliseconds.
With 1,000, ELMo is slower on a quiet machine.
Where other programs want the processor, such threads keep it from those that compute.
"""


class ElmoTasksFinder:
    """Finds the modules of `IMPORTING` as the finders after it do, with a `_Loader`."""

    @staticmethod
    def find_spec(name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name == "allennlp.__main__":
            start_command()
        if name.partition(".")[0] not in IMPORTING:
            return None
        finders = list(sys.meta_path)
        place = finders.index(ElmoTasksFinder) if ElmoTasksFinder in finders else -1  # type: ignore[arg-type]
        specs = (finder.find_spec(name, path, target) for finder in finders[place + 1 :])
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def find_first(path: "Any") -> "Any":
    """Finds AllenNLP, and takes the place of the finder of the `.pth` file, which a Python may read twice."""
    others = [
        finder for finder in sys.meta_path if getattr(finder, "__name__", "") != ElmoTasksFinder.__name__
    ]
    # Another thread may be at some place in the old list.
    sys.meta_path = [ElmoTasksFinder, *others]  # type: ignore[list-item]
    return ElmoTasksFinder.find_spec("allennlp", path)


def start_command() -> None:
    """
    Prepares the process of the command `allennlp`: Python looks for `allennlp.__main__` when the command
    starts, by its script or `python -m allennlp`, and in the processes that it spawns. PyTorch, whose libgomp
    reads `GOMP_SPINCOUNT`, and AllenNLP's log are loaded after it.
    """
    global _in_command
    _in_command = True
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = SPINS
    # These two say what they found in the log alone.
    shows_log = "test-install" in sys.argv or "--dry-run" in sys.argv
    if _is_wanted() and not shows_log:
        os.environ.setdefault("ALLENNLP_LOG_LEVEL", "WARNING")


_in_command = False


def _is_wanted() -> bool:
    return os.environ.get("ELMO_TASKS_PLUGIN") != "0"


class _Loader:
    """Executes a module with imports of our own; otherwise it is the loader that was found."""

    def __init__(self, loader: "Any") -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        if _in_command and module.__name__ == "allennlp.commands":
            _import_commands(self._loader.exec_module, module)
        else:
            _execute(self._loader.exec_module, module)
        if module.__name__ == "allennlp.common.util":
            names = vars(module)
            import_package.__wrapped__ = names["import_module_and_submodules"]  # type: ignore[attr-defined]
            names["import_module_and_submodules"] = import_package


def _import_commands(execute: "Any", module: ModuleType) -> None:
    """
    Imports most of what an `allennlp` command needs, and then the suite, which changes the commands before
    AllenNLP makes their parser; help of a command of AllenNLP that is unchanged does without it. The
    garbage collector would find nothing in them, and would take a quarter of the start.
    """
    import gc
    import importlib

    is_changed = sys.argv[1:2] in (["elmo"], ["predict"])
    shows_help = not is_changed and {"-h", "--help"} & set(sys.argv[2:])
    gc.disable()
    try:
        _execute(execute, module)
        if _is_wanted() and not shows_help:
            importlib.import_module("elmo_tasks.suite")
    finally:
        gc.enable()
    gc.freeze()


def _execute(execute: "Any", module: ModuleType) -> None:
    if not module.__name__.startswith(f"{CLIENTS}."):
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import}
    execute(module)


def _import(name: str, globals: "Any", locals: "Any" = None, fromlist: "Any" = (), level: int = 0) -> "Any":
    """
    Imports for a statement at the top of a module. The functions that the module then defines have Python's
    own `__import__`.
    """
    globals["__builtins__"] = vars(builtins)
    own = globals["__name__"].partition(".")[0]
    path = f"{globals['__package__']}.{name}" if level else name
    package = path.partition(".")[0]
    # `allennlp/__init__.py` imports PyTorch and NumPy, and uses neither.
    is_later = package in LATER or (globals["__name__"] == "allennlp" and package in ("torch", "numpy"))
    if path in (CLIENTS, TOOL) or (is_later and package != own):
        return Deferred(path if fromlist else package)
    try:
        return builtins.__import__(name, globals, locals, fromlist, level)
    except ModuleNotFoundError as error:
        if error.name not in placeholders:
            raise
        return placeholders[name if fromlist else error.name]


def _refuse(name: str) -> "NoReturn":
    package = name.partition(".")[0]
    raise ImportError(
        f"{name} was used, but {package} is not installed: elmo_tasks supplies a placeholder, "
        f"because AllenNLP imports {package} although models of text do not need it. "
        f"To use it, install a build that matches your Python and PyTorch: pip install {package}",
        name=package,
    )


class _Placeholder(ModuleType):
    """A module that refuses everything but the names that tools probe for."""

    def __getattr__(self, name: str) -> "Any":
        if name.startswith("__") and name.endswith("__"):
            return super().__getattribute__(name)  # an AttributeError
        return _refuse(f"{self.__name__}.{name}")


def _unusable(module: str, name: str) -> type:
    """Returns a class that can be derived from, and refuses to be made or called."""

    def refuse(*args: "Any", **kwargs: "Any") -> "NoReturn":
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
    "h5py": (),
    "lmdb": (),
}
placeholders = {name: _Placeholder(name) for name in _IMPORTED_NAMES}
"""The placeholders by name, each with the names that AllenNLP imports; a package precedes its modules."""

for module_name, placeholder in placeholders.items():
    for name in _IMPORTED_NAMES[module_name]:
        setattr(placeholder, name, _unusable(module_name, name))
    package, _, last = module_name.rpartition(".")
    if package:
        setattr(placeholders[package], last, placeholder)


def import_package(package_name: str, exclude: "Collection[str] | None" = None) -> None:
    """
    Imports a package with its public submodules, as `import_module_and_submodules` of AllenNLP does, which
    looks for the package checklist before each module, and imports a sub-package also by its last name alone,
    which a module of the user may have. Of elmo_tasks it imports the suite, which registers everything, or
    the named module alone: others change AllenNLP, or need an extra.
    """
    import importlib
    import pkgutil
    from importlib.util import find_spec

    if package_name.partition(".")[0] == "elmo_tasks":
        importlib.import_module("elmo_tasks.suite" if package_name == "elmo_tasks" else package_name)
        return
    left_out = {TOOL, *(exclude or ())}
    if find_spec("checklist") is None:
        left_out.add("allennlp.confidence_checks.task_checklists")
    importlib.invalidate_caches()
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        names = [package_name]
        while names:
            module = importlib.import_module(names.pop())
            found = pkgutil.iter_modules(getattr(module, "__path__", ()), f"{module.__name__}.")
            public = (name for _, name, _ in found if not name.rpartition(".")[2].startswith(("_", "test")))
            names += sorted(set(public) - left_out, reverse=True)
    finally:
        sys.path.remove(here)


def adam_w() -> "Any":
    """Returns PyTorch's AdamW with the arguments of the class that transformers dropped in 4.49."""
    if _adam_w:
        return _adam_w[0]
    import torch
    from allennlp.common.checks import ConfigurationError

    class AdamW(torch.optim.AdamW):
        def __init__(self, params: "Any", *, correct_bias: bool = True, **options: "Any") -> None:
            if not correct_bias:
                raise ConfigurationError(
                    "trainer.optimizer.correct_bias is false, which PyTorch's AdamW cannot do; "
                    "leave it out, or install transformers<4.49"
                )
            super().__init__(params, **options)

    _adam_w.append(AdamW)
    return AdamW


_adam_w: "list[Any]" = []


def resource_filename() -> "Any":
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

    @property
    def _target(self) -> "Any":
        # Python 3.11 has one lock for all that `cached_property` computes, and an import has locks, too.
        if "_found" not in vars(self):
            vars(self)["_found"] = self._find()
        return vars(self)["_found"]

    def _find(self) -> "Any":
        import pkgutil

        try:
            return pkgutil.resolve_name(self._path)
        except (ImportError, AttributeError):
            if self._path not in _DROPPED:
                raise
            return _DROPPED[self._path]()

    def __getattr__(self, name: str) -> "Any":
        if name == "__version__":
            return self._target.__version__
        if name.startswith("__") and name.endswith("__"):
            return super().__getattribute__(name)  # an AttributeError
        part = vars(self)[name] = Deferred(f"{self._path}.{name}")
        return part

    def __call__(self, *args: "Any", **kwargs: "Any") -> "Any":
        return self._target(*args, **kwargs)

    def __getitem__(self, key: "Any") -> "Any":
        return self._target[key]

    def __instancecheck__(self, value: "Any") -> bool:
        # A class has no instances before its package is imported.
        return self._path.partition(".")[0] in sys.modules and isinstance(value, self._target)

    def __mro_entries__(self, bases: "tuple[Any, ...]") -> tuple[type]:
        """Returns a base class that the real one replaces when the first instance is made."""

        def start(instance: "Any", *args: "Any", **kwargs: "Any") -> None:
            for derived in type(instance).__mro__:
                if base in derived.__bases__:
                    derived.__bases__ = tuple(self._target if b is base else b for b in derived.__bases__)
            self._target.__init__(instance, *args, **kwargs)

        real = next((base for base in bases if isinstance(base, type)), None)
        base = type(self._path, (real.__base__ if real else object,), {"__init__": start})  # type: ignore[arg-type]
        return (base,)
