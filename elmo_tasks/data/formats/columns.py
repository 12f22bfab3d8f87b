"""
Files in columns: one token a line, an empty line between sentences.

CoNLL-2012 (https://conll.cemantix.org/2012/data.html), as OntoNotes has it, and corpora after its model, have
documents between `#begin document (ID); part 000` and `#end document`. GUM writes `# begin document ID`,
OntoGUM no id, and others no part. The folders of OntoNotes hold more than the gold annotation: skeletons,
which have no words (`*_skel`), and automatic annotation (`*_auto_conll`), often of the same documents.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.input_files import InputError, input_files, read_lines

logger = logging.getLogger(__name__)

BLANKS = " \t"
LONG = 1000
"""Tokens of a sentence, above which the empty lines between sentences are likely missing."""
_BLANKS = re.compile(f"[{BLANKS}]+")
_COMMENT = re.compile(r"#+(?:[ \t]|$)|###")
_KEY = re.compile(r"#+ +(?:\d+$|(?:sent_)?id\b|text\b|newdoc\b|newpar\b|global\b|\S+ *= )")
"""Comments that could be rows by their number of columns, such as `# id 12 domain`."""
_VALUE = re.compile(r"# \S+ = ")

Lines = list[tuple[int, str]]


class ColumnLayout:
    """
    The names of a file's columns, and what separates them.

    # Parameters

    names : names of the columns in order.
    delimiter : text between two columns; `None` for any run of blanks and tabs.
    needed : names that must occur exactly once.
    comments : the start of lines that are no rows; with `auto`, lines that begin with `#` and a blank, or
        with `###`, before the first word of a sentence, and do not look like a row: they have another number
        of columns or of tabs, or a key such as `# id`; and `# key = value` anywhere, with another number of
        columns. `None`: there are no comments.

    # Raises
    `ConfigurationError`: a needed name does not occur exactly once.
    """

    def __init__(
        self,
        names: Sequence[str],
        delimiter: str | None,
        *,
        needed: Sequence[str],
        comments: str | None = "auto",
    ) -> None:
        if any(list(names).count(name) != 1 for name in needed):
            *others, last = map(repr, needed)
            raise ConfigurationError(
                f"columns: found {names!r}, expected a list of names with {', '.join(others)} and {last} "
                "once each"
            )
        self.names = list(names)
        self.delimiter = delimiter
        self.comments = comments

    def split(self, line: str) -> list[str]:
        """Returns the cells of a line."""
        return split_cells(line, self.delimiter)

    def fits(self, cells: list[str]) -> bool:
        """Tells whether a row may have so many cells."""
        return len(cells) == len(self.names)

    def sentences(
        self,
        path: Path,
        lines: Iterable[tuple[int, str]] | None = None,
        *,
        separators: tuple[str, ...] = (),
    ) -> Iterator[Lines]:
        """
        Yields the lines of each sentence of a file, or of its numbered `lines` alone, without comments; warns
        of the first sentence of more than `LONG` tokens. For `separators` see `line_groups`.
        """
        warned = False
        lines = read_lines(path) if lines is None else lines
        for group in line_groups(lines, separators=separators):
            if self.comments:
                group = self._rows(group)
            if len(group) > LONG and not warned:
                warned = True
                found, expected = f"a sentence of {len(group):,} tokens", "an empty line after each sentence"
                logger.warning("%s", InputError.at(path, group[0][0], found=found, expected=expected))
            if group:
                yield group

    def row(self, path: Path, line_number: int, line: str) -> list[str]:
        """Returns the cells of a line without empty ones too many; another number is an `InputError`."""
        cells, names = self.split(line), self.names
        if len(cells) != len(names):
            if len(cells) < len(names) or any(cells[len(names) :]):
                found = f"{len(cells)} columns in {line[:80]!r}"
                expected = f"{len(names)}: {', '.join(names)}"
                if line.startswith("#"):
                    expected += "; a reader's key `comments` leaves out lines of the same begin"
                raise InputError.at(path, line_number, found=found, expected=expected)
            del cells[len(names) :]
        return cells

    def _rows(self, group: Lines) -> Lines:
        if self.comments not in (None, "auto"):
            return [each for each in group if not each[1].startswith(self.comments)]
        first = 0
        while first < len(group) and group[first][1].startswith("#") and self._is_comment(group, first):
            first += 1
        return [each for each in group[first:] if not self._is_value(each[1])]

    def _is_value(self, line: str) -> bool:
        return _VALUE.match(line) is not None and not self.fits(self.split(line))

    def _is_comment(self, group: Lines, index: int) -> bool:
        line = group[index][1]
        if not _COMMENT.match(line):
            return False
        row = next((other for _, other in group[index + 1 :] if not _COMMENT.match(other)), line)
        cells = self.split(line)
        return (
            not self.fits(cells)
            or line.count("\t") != row.count("\t")
            or " " in cells[0]
            or _KEY.match(line) is not None
        )


def split_cells(line: str, delimiter: str | None) -> list[str]:
    """Splits a line at a delimiter; with `None` at runs of blanks and tabs, but not at other white space."""
    return line.split(delimiter) if delimiter else _BLANKS.split(line.strip(BLANKS))


def line_groups(lines: Iterable[tuple[int, str]], *, separators: tuple[str, ...] = ()) -> Iterator[Lines]:
    """Groups numbered lines into sentences, between blank lines or lines that begin with `separators`."""
    group: Lines = []
    for line_number, line in lines:
        if line.strip(BLANKS) and not line.startswith(separators):
            group.append((line_number, line))
        elif group:
            yield group
            group = []
    if group:
        yield group


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
    `InputError`: there are only skeletons.
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


def begin_document_id(line: str) -> str | None:
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
