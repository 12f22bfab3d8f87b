"""
The files of OntoNotes in the columns of CoNLL-2012. Beside those with gold annotation may stand the same
documents with automatic annotation (`*_auto_conll`), and skeletons, which have no words (`*_skel`). Some ends
of sentences are the words `/.` and `/?`.
"""

import logging
from pathlib import Path

from elmo_tasks.data.input_files import InputError, input_files

logger = logging.getLogger(__name__)

_SKELETONS = ("_skel", "_skel.gz")
_AUTOMATIC, _GOLD = "_auto_conll", "_gold_conll"
_ESCAPED = {"/.": ".", "/?": "?"}


def gold_files(path: str | list[str]) -> list[Path]:
    """
    The files that `path` stands for, see `input_files`, without skeletons, and without the automatic
    annotation of documents whose gold annotation is there, too. The log says how many are left out.

    # Raises
    `InputError`: see `input_files`, or there are only skeletons.
    """
    files = input_files(path)
    with_words = [file for file in files if not file.name.endswith(_SKELETONS)]
    if not with_words:
        raise InputError.at(path, found="only skeleton files", expected="files with words")
    all_with_words = set(with_words)
    gold = [
        file for file in with_words if _AUTOMATIC not in file.name or _with_gold(file) not in all_with_words
    ]
    for left_out, kind in (
        (len(files) - len(with_words), "skeleton files (*_skel)"),
        (len(with_words) - len(gold), "files (*_auto_conll) whose gold annotation is there, too,"),
    ):
        if left_out:
            logger.info("%s: %d %s left out", path, left_out, kind)
    return gold


def _with_gold(file: Path) -> Path:
    return file.with_name(file.name.replace(_AUTOMATIC, _GOLD))


def unescaped(word: str) -> str:
    """A word of the column, as other texts write it."""
    return _ESCAPED.get(word, word)
