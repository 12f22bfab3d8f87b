"""
Other formats that are taken for a text of one tokenised sentence a line, known by their first lines.

It needs no AllenNLP.
"""

import logging
import re
from collections.abc import Iterator
from functools import lru_cache

from elmo_tasks.common.errors import ElmoError, FilePath

logger = logging.getLogger(__name__)

CHECKED = 100
"""The lines of a file that are looked at."""
SENTENCES = "one tokenised sentence a line"
_CONLLU = re.compile(r"\d+([-.]\d+)?(\t[^\t]*){9}")
_WORDS_OF_CONLLU = r"""awk -F'\t' '$1 ~ /^[0-9]+$/ {printf "%s ", $2} NF == 0 {print ""}'"""
_RESIDUES = re.compile(r"[A-Za-z]{2,}\*?")
_BORDERS = re.compile(r"\s*(<s>|<bos>|\[CLS\])\s|.*\s(</s>|<eos>|\[SEP\])\s*$", re.IGNORECASE)


def checked_sentences(path: FilePath, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """
    Yields the numbered lines of a text, and warns once if borders of sentences are typed out.

    # Raises
    `ElmoError`, with the line: it is CoNLL-U or FASTA, or its lines end with carriage returns alone.
    """
    before = ""
    for number, line in lines:
        if _CONLLU.fullmatch(line):
            expected = f"{SENTENCES}; this writes it: {_WORDS_OF_CONLLU}"
            raise ElmoError.at(path, number, found="the ten columns of CoNLL-U", expected=expected)
        if before.startswith(">") and not before[1:2].isspace() and _RESIDUES.fullmatch(line.strip()):
            expected = f"{SENTENCES}; `allennlp elmo embed --format fasta` reads proteins"
            raise ElmoError.at(path, number - 1, found="a header of FASTA", expected=expected)
        if number == 1 and "\r" in line.strip():
            expected = r"lines that end with LF or CRLF; this writes them: tr '\r' '\n'"
            raise ElmoError.at(path, number, found="lines that end with CR alone", expected=expected)
        if border := _BORDERS.match(line):
            _warn_of_border(str(path), border[1] or border[2])
        yield number, line
        before = line
        if number >= CHECKED:
            break
    yield from lines


@lru_cache
def _warn_of_border(path: str, border: str) -> None:
    """Warns once, however often the file is read."""
    logger.warning(
        "%s: found %s, which the biLM adds to each sentence by itself, as a word; expected the words alone",
        path,
        border,
    )
