"""OntoNotes in the columns of CoNLL-2012, beside whose files skeletons may stand: the same without words."""

import logging
from pathlib import Path

from elmo_tasks.data.input_files import InputError, input_files

logger = logging.getLogger(__name__)

_SKELETONS = ("_skel", "_skel.gz")
"""How the names of skeleton files end."""


def files_with_words(path: str | list[str]) -> list[Path]:
    """
    The files that `path` stands for, see `input_files`, without skeletons, which are counted in the log.

    # Raises
    `InputError`: see `input_files`, or there are only skeletons.
    """
    files = input_files(path)
    with_words = [file for file in files if not file.name.endswith(_SKELETONS)]
    if len(with_words) < len(files):
        logger.info("%s: %d skeleton files (*_skel) left out", path, len(files) - len(with_words))
    if not with_words:
        raise InputError.at(path, found="only skeleton files", expected="files with words")
    return with_words
