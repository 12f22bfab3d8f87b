"""
Files in columns: one token a line, an empty line between sentences.

The folders of OntoNotes, in the columns of CoNLL-2012, hold more than the gold annotation: skeletons, which
have no words (`*_skel`), and automatic annotation (`*_auto_conll`), often of the same documents.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.input_files import InputError, input_files

logger = logging.getLogger(__name__)

BLANKS = " \t"
_BLANKS = re.compile(f"[{BLANKS}]+")
_SKELETONS = ("_skel", "_skel.gz")
_AUTOMATIC, _GOLD = "_auto_conll", "_gold_conll"
_ESCAPED = {"/.": ".", "/?": "?"}


class ColumnLayout:
    """
    The names of a file's columns, and what separates them.

    # Parameters

    names : names of the columns in order.
    delimiter : text between two columns; `None` for any run of blanks and tabs.
    needed : names that must occur exactly once.

    # Raises
    `ConfigurationError`: a needed name does not occur exactly once.
    """

    def __init__(self, names: Sequence[str], delimiter: str | None, *, needed: Sequence[str]) -> None:
        if any(list(names).count(name) != 1 for name in needed):
            *others, last = map(repr, needed)
            raise ConfigurationError(
                f"columns: found {names!r}, expected a list of names with {', '.join(others)} and {last} "
                "once each"
            )
        self.names = list(names)
        self.delimiter = delimiter

    def split(self, line: str) -> list[str]:
        """Returns the cells of a line."""
        return split_cells(line, self.delimiter)


def split_cells(line: str, delimiter: str | None) -> list[str]:
    """Splits a line at a delimiter; with `None` at runs of blanks and tabs, but not at other white space."""
    return line.split(delimiter) if delimiter else _BLANKS.split(line.strip(BLANKS))


def line_groups(
    lines: Iterable[tuple[int, str]], *, separators: tuple[str, ...] = ()
) -> Iterator[list[tuple[int, str]]]:
    """
    Groups numbered lines into sentences, between lines that are empty or hold only blanks and tabs.

    # Parameters

    separators : a line that begins with one of them separates like an empty one.
    """
    group: list[tuple[int, str]] = []
    for number, line in lines:
        if line.strip(BLANKS) and not line.startswith(separators):
            group.append((number, line))
        elif group:
            yield group
            group = []
    if group:
        yield group


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
