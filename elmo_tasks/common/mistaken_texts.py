"""
Texts of one sentence a line, and other formats that are taken for one.

It needs no AllenNLP.
"""

import json
import logging
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from elmo_tasks.common.errors import ElmoError, FilePath

logger = logging.getLogger(__name__)

CHECKED = 100
"""The lines of a file that are looked at."""
SENTENCES = "one tokenised sentence a line"
_CONLLU = re.compile(r"\d+([-.]\d+)?(\t[^\t]*){9}")
_WORDS_OF_CONLLU = r"""awk -F'\t' '$1 ~ /^[0-9]+$/ {printf "%s ", $2} NF == 0 {print ""}'"""
_RESIDUES = re.compile(r"[A-Za-z]{2,}\*?")
_CONLL_2012 = "#begin document ("
_TAGS = re.compile(r"O|[BILUES]-\S+")
_WORDS_OF_COLUMNS = r"""awk 'NF {printf "%s ", $1} !NF {print ""}'"""
_OBJECT = re.compile(r'\s*\{\s*"')
_FEW = 3
"""The rows of a table, at least; two sentences may have as many tabs by chance."""
_TABLES = {".csv", ".tsv"}
_warned: set[tuple[str, ...]] = set()
_BOUNDARIES = re.compile(r"\s*(<s>|<bos>|\[CLS\])\s|.*\s(</s>|<eos>|\[SEP\])\s*$", re.IGNORECASE)


def checked_sentences(path: FilePath, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """
    Yields the numbered lines of a text, and warns once if it looks like a table, or if it contains the
    boundary tokens of sentences, such as `<s>`.

    # Raises
    `ElmoError`, with the line: it is CoNLL-U, another file with a token and its tags a line, JSON Lines or
    FASTA, or its lines end with carriage returns alone.
    """
    first_lines = list(islice(lines, CHECKED))
    _check_rows(path, [each for each in first_lines if each[1].strip()])
    before = ""
    for line_number, line in first_lines:
        if _CONLLU.fullmatch(line):
            raise _mistaken("CoNLL-U", path, line_number, f"this writes its words: {_WORDS_OF_CONLLU}")
        if before.startswith(">") and not before[1:2].isspace() and _RESIDUES.fullmatch(line.strip()):
            raise _mistaken("FASTA", path, line_number - 1, "`allennlp elmo embed --format fasta` reads it")
        if line_number == 1 and "\r" in line.strip():
            remedy = r"this writes lines that end with LF: tr '\r' '\n'"
            raise ElmoError("the lines end with CR alone", where=path, line=line_number, remedy=remedy)
        if boundary := _BOUNDARIES.match(line):
            warn_once(
                "%s: %s is read as a word, although the biLM adds it to each sentence itself; remove it",
                str(path),
                boundary[1] or boundary[2],
            )
        yield line_number, line
        before = line
    yield from lines


def _check_rows(path: FilePath, rows: list[tuple[int, str]]) -> None:
    """Refuses rows of which each is a JSON object, or has a tag in its last column; warns of other tables."""
    if rows and all(_is_object(row) for _, row in rows):
        raise _mistaken("JSON Lines", path, rows[0][0])
    if rows and rows[0][1].startswith(_CONLL_2012):
        raise _mistaken("CoNLL-2012", path, rows[0][0])
    rows = [each for each in rows if not each[1].startswith(("-DOCSTART-", "#"))]
    words = [row.split() for _, row in rows]
    last = [row[-1] for row in words]
    if len(rows) >= _FEW and _is_table(words) and "O" in last and all(map(_TAGS.fullmatch, last)):
        remedy = f"if the words come first, this writes them: {_WORDS_OF_COLUMNS}"
        raise _mistaken("columns of tokens and their tags", path, rows[0][0], remedy)
    has_columns = len(rows) >= _FEW and _is_table([row.split("\t") for _, row in rows])
    if has_columns or not _TABLES.isdisjoint(Path(path).suffixes):
        warn_once("%s: the rows of this table are read as sentences; the text needs %s", str(path), SENTENCES)


def _mistaken(kind: str, path: FilePath, line: int, remedy: str = "") -> ElmoError:
    what = f"the text looks like {kind}, not like {SENTENCES}"
    return ElmoError(what, where=path, line=line, remedy=remedy)


def _is_object(line: str) -> bool:
    try:
        return bool(_OBJECT.match(line)) and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _is_table(rows: list[list[str]]) -> bool:
    """Tells whether rows have the same number of cells, two or more."""
    return len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows)


def warn_once(*warning: str) -> None:
    """Warns of a file, however often it is read: once with the same words, when the log shows warnings."""
    if warning not in _warned and logger.isEnabledFor(logging.WARNING):
        _warned.add(warning)
        logger.warning(*warning)
