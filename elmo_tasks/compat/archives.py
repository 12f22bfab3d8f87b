"""Has AllenNLP open archives by `elmo_tasks.archives`, wherever it opens them."""

import sys

from allennlp.common.registrable import Registrable
from allennlp.data import Vocabulary
from allennlp.models import archival
from allennlp.nn import util

from elmo_tasks.archives import (
    extracted_archive,
    open_archive,
    read_whole_state,
    resolve_registered,
    vocabulary_from_files,
)

__all__ = ["open_archive", "open_archives_safely"]


def open_archives_safely() -> None:
    """Replaces AllenNLP's loader, also in modules that have imported it already."""
    archival.extracted_archive = extracted_archive
    util.read_state_dict = read_whole_state
    Vocabulary.from_files = classmethod(vocabulary_from_files)
    Registrable.resolve_class_name = classmethod(resolve_registered)
    stock = archival.load_archive
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("load_archive") is stock:
            module.load_archive = open_archive  # type: ignore[attr-defined]
