"""Texts of one sentence a line, and other formats that are taken for one."""

import logging
import re
from collections.abc import Callable, Iterator
from itertools import islice, product

from elmo_tasks.common.errors import ElmoError, FilePath

logger = logging.getLogger(__name__)

CHECKED = 100
"""The lines of a file that are looked at."""
SENTENCES = "one tokenised sentence a line"
_CONLLU = re.compile(r"\d+([-.]\d+)?(\t[^\t]*){9}")
_WORDS_OF_CONLLU = r"""awk -F'\t' '$1 ~ /^[0-9]+$/ {printf "%s ", $2} NF == 0 {print ""}'"""
_HEADER = re.compile(r">\S")
_RESIDUES = re.compile(r"[A-Za-z]{2,}\*?")
_COMMENTS = ("-DOCSTART-", "#")
_TAGS = re.compile(r"O|[BILUES]-\S+")
_WORDS_OF_COLUMNS = r"""awk 'NF {printf "%s ", $1} !NF {print ""}'"""
_OBJECT = re.compile(r'\s*\{\s*".*\}\s*')
_FEW = 3
"""The rows of a table, at least; two sentences may have as many tabs by chance."""
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
    and its tags a line, JSON Lines and FASTA are an `ElmoError`, with the line.
    """
    first_lines = list(islice(lines, CHECKED))
    rows = [(number, line) for number, line in first_lines if line.strip() and not line.startswith(_COMMENTS)]
    if rows and (mistake := _mistake(rows)):
        what, line_number, remedy = mistake
        raise ElmoError(f"the text {what}; it needs {SENTENCES}", where=path, line=line_number, remedy=remedy)
    if _is_table([row.split("\t") for _, row in rows]):
        warn("%s: the rows of this table are read as sentences; the text needs %s", str(path), SENTENCES)
    no_words = dict(_NO_WORDS)
    for line_number, line in first_lines:
        for token, (pattern, what) in product(line.split(), list(no_words.items())):
            if pattern.fullmatch(token) and no_words.pop(pattern, None):
                warn("%s: %s is read as a word, although %s", str(path), token, what)
        yield line_number, line
    yield from lines


def _mistake(rows: list[tuple[int, str]]) -> tuple[str, int, str] | None:
    """Returns what the rows look like, the number of a line that shows it, and what to do."""
    for line_number, row in rows:
        if _CONLLU.fullmatch(row):
            return "looks like CoNLL-U", line_number, f"this writes its words: {_WORDS_OF_CONLLU}"
    number, first = rows[0]
    if _HEADER.match(first) and len(rows) > 1 and _RESIDUES.fullmatch(rows[1][1].strip()):
        return "looks like FASTA", number, "`allennlp elmo embed --format fasta` reads it"
    if all(_OBJECT.fullmatch(row) for _, row in rows):
        return "looks like JSON Lines", number, ""
    words = [row.split() for _, row in rows]
    last = [row[-1] for row in words]
    if _is_table(words) and "O" in last and all(map(_TAGS.fullmatch, last)):
        remedy = f"if the words come first, this writes them: {_WORDS_OF_COLUMNS}"
        return "looks like columns of tokens and their tags", number, remedy
    return None


def _is_table(rows: list[list[str]]) -> bool:
    """Tells whether there are enough rows, all with the same number of cells, two or more."""
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
