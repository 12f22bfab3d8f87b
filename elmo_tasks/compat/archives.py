"""Has AllenNLP open archives by `elmo_tasks.archives`, wherever it opens them."""

import sys
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from allennlp.common.registrable import Registrable
from allennlp.data import Vocabulary
from allennlp.models import archival
from allennlp.nn import util

from elmo_tasks.archives.checking import resolve_registered
from elmo_tasks.archives.opening import extracted_archive, local_archive, open_archive
from elmo_tasks.archives.slim import archive_path, read_whole_state
from elmo_tasks.compat.repairs import wrap

__all__ = ["install", "open_archive"]


def install() -> None:
    """Replaces AllenNLP's loader, also in modules that have imported it already."""
    archival.extracted_archive = extracted_archive
    archival.cached_path = local_archive
    util.read_state_dict = read_whole_state
    wrap(Vocabulary, "from_files", _vocabulary_from_files)
    Registrable.resolve_class_name = classmethod(resolve_registered)
    stock = archival.load_archive
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("load_archive") is stock:
            module.load_archive = open_archive  # type: ignore[attr-defined]


def _vocabulary_from_files(
    stock: Callable[..., Vocabulary],
    cls: type[Vocabulary],
    directory: str | PathLike[str],
    *args: Any,
    **options: Any,
) -> Vocabulary:
    """Takes whatever names an archive, too: the folder of a run, or a name such as `elmo:ner`."""
    path = archive_path(directory)
    own = Path(path, "vocabulary")
    return stock(cls, own if own.is_dir() else path, *args, **options)
