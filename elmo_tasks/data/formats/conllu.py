"""CoNLL-U: ten columns between tabs, and comments (https://universaldependencies.org/format.html)."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from elmo_tasks.data.formats.base import CERTAIN, LIKELY, FileSample
from elmo_tasks.data.formats.columns import EntityOptions, EntitySentence, line_groups, sentence_of
from elmo_tasks.data.input_files import InputError, read_lines, value_or_error

FORM, UPOS, XPOS, MISC = 1, 3, 4, 9
"""The columns of the word, its tags, and all else, as `key=value` between `|`."""
_COLUMNS = 10
_NAME = re.compile(r"(?:^|\|)(?:name|ner)=([^|]*)", re.IGNORECASE)


class ConlluSentence(NamedTuple):
    """The cells of each word with their line, and the comments before them."""

    rows: list[tuple[int, list[str]]]
    comments: list[str]


def is_conllu(lines: Iterable[str]) -> bool:
    """Returns whether the first line that is not a comment has the columns of CoNLL-U."""
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
                problem = f"the line has {len(cells)} columns between tabs; CoNLL-U has {_COLUMNS}"
                raise InputError(problem, where=path, line=line_number)
            if cells[0].isdecimal():
                rows.append((line_number, cells))
        if rows:
            empty = False
            yield ConlluSentence(rows, comments)
    if empty:
        raise InputError("the file has no sentences", where=path)


def read_conllu_entities(path: Path, options: EntityOptions) -> Iterator[EntitySentence | InputError]:
    """
    Yields the sentences of a file with entities: `name=` (NorNE) or `NER=` (hr500k, ParlaMint) in the last
    column. Other words are outside of entities. Without any such word the sentences have no tags.
    """
    waiting: list[EntitySentence | InputError] = []
    tagged = False
    for rows, _ in read_conllu(path, encoding=options.encoding):
        names = [_NAME.search(cells[MISC]) for _, cells in rows]
        words, lines = [cells[FORM] for _, cells in rows], [line for line, _ in rows]
        tags = [name[1] if name else "O" for name in names]
        waiting.append(value_or_error(sentence_of, path, words, lines, tags))
        if tagged := tagged or any(names):
            yield from waiting
            waiting = []
    for each in waiting:
        if isinstance(each, EntitySentence):
            each.tags = None
        yield each


def detect_conllu(sample: FileSample) -> float:
    """Returns the evidence for CoNLL-U, which is certain if it names entities."""
    if not is_conllu(sample.lines):
        return 0.0
    return CERTAIN if any(_NAME.search(line.rpartition("\t")[2]) for line in sample.lines) else LIKELY
