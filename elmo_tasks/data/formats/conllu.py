"""CoNLL-U: ten columns between tabs, and comments (https://universaldependencies.org/format.html)."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from elmo_tasks.data.formats.columns import line_groups
from elmo_tasks.data.input_files import InputError, read_lines

FORM, UPOS, XPOS, MISC = 1, 3, 4, 9
"""The columns of the word, its tags, and what else is said of it, as `key=value` between `|`."""
_COLUMNS = 10


class ConlluSentence(NamedTuple):
    """The cells of each word with their line, and the comments before them."""

    rows: list[tuple[int, list[str]]]
    comments: list[str]


def is_conllu(path: Path) -> bool:
    """Tells whether the first line that is no comment has the columns of CoNLL-U."""
    lines = (line for _, line in read_lines(path))
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    return first.count("\t") == _COLUMNS - 1 and first[0].isdecimal()


def read_conllu(path: Path, *, encoding: str | None = None) -> Iterator[ConlluSentence]:
    """
    Yields the syntactic words of each sentence of a file, without multi-word tokens (`1-2`) and empty nodes
    (`1.1`). Sentences without words are left out.

    # Raises
    `InputError`, with the file and the line: another number of columns, or a file without sentences.
    """
    empty = True
    for group in line_groups(read_lines(path, encoding=encoding)):
        rows, comments = [], []
        for line_number, line in group:
            if line.startswith("#"):
                comments.append(line)
                continue
            cells = line.split("\t")
            if len(cells) != _COLUMNS:
                expected = f"{_COLUMNS}, separated by tabs"
                raise InputError.at(path, line_number, found=f"{len(cells)} columns", expected=expected)
            if cells[0].isdecimal():
                rows.append((line_number, cells))
        if rows:
            empty = False
            yield ConlluSentence(rows, comments)
    if empty:
        raise InputError.at(path, found="no sentence", expected="at least one")
