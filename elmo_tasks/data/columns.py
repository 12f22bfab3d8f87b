"""
Text in columns: one token a line, an empty line between sentences.

The files of OntoNotes in the columns of CoNLL-2012. Beside those with gold annotation may stand the same
documents with automatic annotation (`*_auto_conll`), and skeletons, which have no words (`*_skel`). Some ends
of sentences are the words `/.` and `/?`.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.input_files import InputError, input_files

# ==== data.columns
BLANKS = " \t"
_RUN = re.compile(f"[{BLANKS}]+")


class ColumnLayout:
    """
    # Parameters

    names : names of the columns in order.
    delimiter : what separates the columns; `None` for any run of blanks and tabs.
    needed : names that stand among `names` once each.

    # Raises
    `ConfigurationError`: a name that is needed does not stand there once.
    """

    def __init__(self, names: Sequence[str], delimiter: str | None, *, needed: Sequence[str]) -> None:
        if any(list(names).count(name) != 1 for name in needed):
            quoted = [repr(name) for name in needed]
            raise ConfigurationError(
                f"columns: found {names!r}, expected a list of names with {', '.join(quoted[:-1])} and "
                f"{quoted[-1]} once each"
            )
        self.names = list(names)
        self.delimiter = delimiter

    def split(self, line: str) -> list[str]:
        """The cells of a line."""
        return split_cells(line, self.delimiter)


def split_cells(line: str, delimiter: str | None) -> list[str]:
    """The cells between delimiters; `None`: between runs of blanks and tabs, not of other white space."""
    return line.split(delimiter) if delimiter else _RUN.split(line.strip(BLANKS))


def line_groups(
    lines: Iterable[tuple[int, str]], *, separators: tuple[str, ...] = ()
) -> Iterator[list[tuple[int, str]]]:
    """
    The numbered lines between empty ones, which may have blanks and tabs.

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


# ==== data.conll_2012
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
