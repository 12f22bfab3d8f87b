"""What `--include-package elmo_tasks` imports: all but the drop-ins, for who names them, and the service."""

import allennlp.commands
from allennlp.common import plugins, util

DROP_INS = frozenset({"elmo_tasks.drop_in", "elmo_tasks.drop_in_stateless"})
"""To import one puts our ELMo into the place of AllenNLP's."""
_SERVICE = "elmo_tasks.serving"
"""It needs an extra, and registers nothing."""
_import_module_and_submodules = util.import_module_and_submodules


def import_package(package_name: str, exclude: set[str] | None = None) -> None:
    """As `allennlp.common.util.import_module_and_submodules`."""
    _import_module_and_submodules(package_name, (exclude or set()) | ({*DROP_INS, _SERVICE} - {package_name}))


def install() -> None:
    """For `--include-package`, for `.allennlp_plugins`, and for the workers of a distributed run."""
    for room in (util, allennlp.commands, plugins):
        room.import_module_and_submodules = import_package
