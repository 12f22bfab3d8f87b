"""What `--include-package elmo_tasks` imports: no drop-in, unless it is named, and nothing of an extra."""

import allennlp.commands
from allennlp.common import plugins, util

DROP_INS = frozenset({"elmo_tasks.drop_in", "elmo_tasks.drop_in_stateless"})
"""To import one puts our ELMo into the place of AllenNLP's."""
_ON_RAY = ("elmo_tasks.scale", "elmo_tasks.commands.embed_on_ray", "elmo_tasks.commands.predict_on_ray")
_EXTRAS = frozenset({"elmo_tasks.serving", "elmo_tasks.page.app", *_ON_RAY})
"""They need an extra, and register nothing."""
_import_module_and_submodules = util.import_module_and_submodules


def import_package(package_name: str, exclude: set[str] | None = None) -> None:
    """As `allennlp.common.util.import_module_and_submodules`."""
    _import_module_and_submodules(package_name, (exclude or set()) | ((DROP_INS | _EXTRAS) - {package_name}))


def install() -> None:
    """For `--include-package`, for `.allennlp_plugins`, and for the workers of a distributed run."""
    for room in (util, allennlp.commands, plugins):
        room.import_module_and_submodules = import_package
