"""
What `--include-package` imports of elmo_tasks: the one module that is named, and with it the suite.

The suite registers all that there is to register. What stands outside of it changes AllenNLP, as the drop-in
does, or needs an extra.
"""

from importlib import import_module

import allennlp.commands
from allennlp.common import plugins, util

_import_module_and_submodules = util.import_module_and_submodules


def import_package(package_name: str, exclude: set[str] | None = None) -> None:
    """
    As `allennlp.common.util.import_module_and_submodules`, which hands `exclude` to itself for each
    submodule: what a user names has none.
    """
    if package_name.partition(".")[0] != "elmo_tasks":
        _import_module_and_submodules(package_name, exclude)
    elif exclude is None:
        import_module(package_name)


def install() -> None:
    """Serves `--include-package`, `.allennlp_plugins`, and the workers of a distributed run."""
    for module in (util, allennlp.commands, plugins):
        module.import_module_and_submodules = import_package
