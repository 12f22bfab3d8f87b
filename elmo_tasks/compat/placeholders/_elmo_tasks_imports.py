"""Lets AllenNLP be imported without torchvision and fairscale, and nobody else take them for installed.

AllenNLP imports both wherever it is imported itself. A `.pth` file calls `install` when Python starts,
before anything of AllenNLP can be there. When one of `MODULES` is executed later, its own import statements
find a placeholder for what is not installed. No placeholder is on `sys.path` or in `sys.modules`, so that
`importlib.util.find_spec("torchvision")` says what is true.
"""

import builtins
import sys

MODULES = (
    "allennlp.data.image_loader",
    "allennlp.modules.vision.grid_embedder",
    "allennlp.modules.vision.region_detector",
    "allennlp.nn.checkpoint.fairscale_checkpoint_wrapper",
    "allennlp.nn.parallel.fairscale_fsdp_accelerator",
)
"""Those of AllenNLP that import a package which text does not need."""


class Finder:
    """Finds `MODULES` as the other finders do, and has them executed with `_import`."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name not in MODULES:
            return None
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not Finder)
        spec = next(filter(None, specs), None)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):  # type: ignore[no-untyped-def]
                module.__builtins__ = {**vars(builtins), "__import__": _import}
                execute(module)

            spec.loader.exec_module = exec_module
        return spec


def _import(name, globals=None, locals=None, fromlist=(), level=0):  # type: ignore[no-untyped-def]
    try:
        return builtins.__import__(name, globals, locals, fromlist, level)
    except ModuleNotFoundError as error:
        from _elmo_tasks_placeholder import placeholders

        if error.name not in placeholders:
            raise
        return placeholders[name if fromlist else error.name]


def install() -> None:
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
