"""Words and their parts of speech from CoNLL-U (https://universaldependencies.org/format.html)."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from elmo_tasks.data.columns import line_groups
from elmo_tasks.data.input_files import InputError, input_files, read_lines

TAG_COLUMNS = {"upos": 3, "xpos": 4}
"""The universal tags, and those of the language."""

_COLUMNS = 10


class TaggedSentence(NamedTuple):
    words: list[str]
    tags: list[str]
    begins_document: bool = False


def read_conllu(path: str, *, column: str) -> list[TaggedSentence]:
    """
    The syntactic words of each sentence: neither multi-word tokens (`1-2`) nor empty nodes (`1.1`).

    # Parameters

    column : where the tags are, one of `TAG_COLUMNS`.

    # Raises
    `InputError`, with the file and, where it is one, the line: no sentence in a file, another number of
    columns, a word without a tag, and whatever reading raises.
    """
    return [sentence for file in input_files(path) for sentence in _read(file, column)]


def _read(file: Path, column: str) -> Iterator[TaggedSentence]:
    empty = True
    for lines in line_groups(read_lines(file)):
        begins = any(line.startswith("# newdoc") for _, line in lines)
        sentence = TaggedSentence([], [], begins)
        for number, line in lines:
            if not line.startswith("#"):
                _add_word(sentence, file, number, line.split("\t"), column)
        if sentence.words:
            empty = False
            yield sentence
    if empty:
        raise InputError.at(file, found="no sentence", expected="at least one")


def _add_word(sentence: TaggedSentence, file: Path, line: int, cells: list[str], column: str) -> None:
    if len(cells) != _COLUMNS:
        expected = f"{_COLUMNS}, separated by tabs"
        raise InputError.at(file, line, found=f"{len(cells)} columns", expected=expected)
    if cells[0].isdecimal():
        tag = cells[TAG_COLUMNS[column]]
        if tag in ("", "_"):
            raise InputError.at(file, line, found="a word without a tag", expected=f"a tag, {column}")
        sentence.words.append(cells[1])
        sentence.tags.append(tag)
