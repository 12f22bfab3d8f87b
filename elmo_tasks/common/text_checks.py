"""Texts of one sentence a line, and other formats that are taken for one."""

import json
import logging
import re
from collections.abc import Callable, Iterator
from itertools import islice, product
from pathlib import Path

from elmo_tasks.common.errors import ElmoError, FilePath

logger = logging.getLogger(__name__)

CHECKED = 100
"""The lines of a file that are looked at."""
SENTENCES = "one tokenised sentence a line"
_CONLLU = re.compile(r"\d+([-.]\d+)?(\t[^\t]*){9}")
_WORDS_OF_CONLLU = r"""awk -F'\t' '$1 ~ /^[0-9]+$/ {printf "%s ", $2} NF == 0 {print ""}'"""
_RESIDUES = re.compile(r"[A-Za-z]{2,}\*?")
_COMMENTS = ("-DOCSTART-", "#")
_CONLL_2012 = "#begin document ("
_TAGS = re.compile(r"O|[BILUES]-\S+")
_WORDS_OF_COLUMNS = r"""awk 'NF {printf "%s ", $1} !NF {print ""}'"""
_OBJECT = re.compile(r'\s*\{\s*"')
_FEW = 3
"""The rows of a table, at least; two sentences may have as many tabs by chance."""
_TABLES = {".csv", ".tsv"}
_NO_WORDS = {
    re.compile(pattern, re.IGNORECASE): what
    for pattern, what in {
        r"</?s>|<[be]os>|\[(CLS|SEP)\]": "the biLM adds it to each sentence itself; remove it",
        r"<pad>|\[PAD\]": "the biLM pads sentences itself; remove it",
        r"<(unk|mask)>|\[(UNK|MASK)\]": "it takes the place of a word; write the word itself",
        r"##\w+|\w+@@|@[-,.]@|\S+</w>|\u2581\S+": "it is a piece of a word; join the pieces",
        r"-[LR][RSC]B-": "it means a bracket; write the bracket itself",
        r"\S*&([lg]t|amp|quot|apos|nbsp|#\w+);\S*|</?(a|b|i|p|br|em|div|span|strong)[/>]*": (
            "it is HTML; write plain text"
        ),
    }.items()
}
"""Tokens that are read otherwise than they are meant, with the reason and what to do."""


def checked_sentences(
    path: FilePath, lines: Iterator[tuple[int, str]], warn: Callable[..., object] = logger.warning
) -> Iterator[tuple[int, str]]:
    """
    Yields the numbered lines of a text, and warns if it looks like a table, and once of each kind of tokens
    that are not words, such as `<s>`, `[PAD]`, `##ing` and `&amp;`. CoNLL-U, another file with a token
    and its tags a line, JSON Lines, FASTA, and lines that end with carriage returns alone are an `ElmoError`,
    with the line.
    """
    first_lines = list(islice(lines, CHECKED))
    rows = [(number, line) for number, line in first_lines if line.strip()]
    if mistake := _mistake(first_lines) or _mistake_of_rows(rows):
        what, line_number, remedy = mistake
        raise ElmoError(f"the text {what}; it needs {SENTENCES}", where=path, line=line_number, remedy=remedy)
    cells = [row.split("\t") for _, row in rows if not row.startswith(_COMMENTS)]
    if _is_table(cells) or not _TABLES.isdisjoint(Path(path).suffixes):
        warn("%s: the rows of this table are read as sentences; the text needs %s", str(path), SENTENCES)
    no_words = dict(_NO_WORDS)
    for line_number, line in first_lines:
        for token, (pattern, what) in product(line.split(), list(no_words.items())):
            if pattern.fullmatch(token) and no_words.pop(pattern, None):
                warn("%s: %s is read as a word, although %s", str(path), token, what)
        yield line_number, line
    yield from lines


def _mistake(lines: list[tuple[int, str]]) -> tuple[str, int, str] | None:
    """Returns what the lines look like, the number of a line that shows it, and what to do."""
    before = ""
    for line_number, line in lines:
        if _CONLLU.fullmatch(line):
            return "looks like CoNLL-U", line_number, f"this writes its words: {_WORDS_OF_CONLLU}"
        if before.startswith(">") and not before[1:2].isspace() and _RESIDUES.fullmatch(line.strip()):
            return "looks like FASTA", line_number - 1, "`allennlp elmo embed --format fasta` reads it"
        if line_number == 1 and "\r" in line.strip():
            return "has lines that end with CR alone", 1, r"this writes lines that end with LF: tr '\r' '\n'"
        before = line
    return None


def _mistake_of_rows(rows: list[tuple[int, str]]) -> tuple[str, int, str] | None:
    if rows and all(_is_object(row) for _, row in rows):
        return "looks like JSON Lines", rows[0][0], ""
    if rows and rows[0][1].startswith(_CONLL_2012):
        return "looks like CoNLL-2012", rows[0][0], ""
    rows = [(number, row) for number, row in rows if not row.startswith(_COMMENTS)]
    words = [row.split() for _, row in rows]
    last = [row[-1] for row in words]
    if _is_table(words) and "O" in last and all(map(_TAGS.fullmatch, last)):
        remedy = f"if the words come first, this writes them: {_WORDS_OF_COLUMNS}"
        return "looks like columns of tokens and their tags", rows[0][0], remedy
    return None


def _is_object(line: str) -> bool:
    try:
        return bool(_OBJECT.match(line)) and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _is_table(rows: list[list[str]]) -> bool:
    return len(rows) >= _FEW and len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows)


class WarnedOnce:
    """
    The warnings of a reader that reads its files several times: once with the same words, when the log shows
    warnings.
    """

    def __init__(self) -> None:
        self._warned: set[tuple[str, ...]] = set()

    def __call__(self, *warning: str) -> None:
        if warning not in self._warned and logger.isEnabledFor(logging.WARNING):
            self._warned.add(warning)
            logger.warning(*warning)
