"""
CoNLL-2012 (https://conll.cemantix.org/2012/data.html), as OntoNotes has it, and corpora after its model.

Documents stand between `#begin document (ID); part 000` and `#end document`. GUM writes
`# begin document ID`, OntoGUM no id, and others no part. The folders of OntoNotes hold more than the gold
annotation: skeletons, which have no words (`*_skel`), and automatic annotation (`*_auto_conll`), often of the
same documents.
"""

import logging
import re
from pathlib import Path

from elmo_tasks.data.input_files import InputError, input_files

logger = logging.getLogger(__name__)

END = "#end document"
_BEGIN = re.compile(r"# ?begin document *(.*?) *(?:;(?: *part *(\d+))?)? *")
_SKELETONS = ("_skel", "_skel.gz")
_AUTOMATIC, _GOLD = "_auto_conll", "_gold_conll"
_ESCAPED = {"/.": ".", "/?": "?"}


def gold_files(path: str | list[str]) -> list[Path]:
    """
    Returns the files of `path`, see `input_files`, without skeletons, and without automatic annotation of
    documents whose gold annotation is among them. The log says how many files are left out.

    # Raises
    `InputError`: see `input_files`, or there are only skeletons.
    """
    files = input_files(path)
    with_words = [file for file in files if not file.name.endswith(_SKELETONS)]
    if not with_words:
        raise InputError.at(path, found="only skeleton files", expected="files with words")
    available = set(with_words)
    gold = [
        file
        for file in with_words
        if _AUTOMATIC not in file.name
        or file.with_name(file.name.replace(_AUTOMATIC, _GOLD)) not in available
    ]
    if skeletons := len(files) - len(with_words):
        logger.info("%s: %d skeleton files (*_skel) left out", path, skeletons)
    if automatic := len(with_words) - len(gold):
        logger.info("%s: %d files (*_auto_conll) left out, whose gold annotation is read", path, automatic)
    return gold


def unescape(word: str) -> str:
    """Returns a word of OntoNotes as other texts write it: some of its sentences end in `/.` or `/?`."""
    return _ESCAPED.get(word, word)


def begun_document(line: str) -> str | None:
    """
    Returns the id of the document that a line begins, with the number of its part, such as `nw/wsj_0001_0`;
    empty if the line has none, and `None` for any other line.
    """
    match = _BEGIN.fullmatch(line)
    if match is None:
        return None
    name, part = match.groups()
    if name.startswith("(") and name.endswith(")"):
        name = name[1:-1]
    return name if part is None else f"{name}_{int(part)}"


def ends_document(line: str) -> bool:
    return line.startswith((END, "# end document"))
