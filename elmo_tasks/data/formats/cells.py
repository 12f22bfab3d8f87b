"""
Tables with a sentence a row, whose words and tags are in cells: separated by blanks, or as the lists that
pandas writes, such as `['Ann', 'left']`.
"""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from elmo_tasks.data.formats import Fit
from elmo_tasks.data.formats.columns import EntityOptions, EntitySentence, plain_tag, sentence_of
from elmo_tasks.data.formats.delimited import read_delimited
from elmo_tasks.data.formats.profile import ENTITY_TAG, Column, Table, read_table
from elmo_tasks.data.formats.sample import Sample, sample_of_files
from elmo_tasks.data.input_files import InputError, shorten, value_or_error

_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_EQUAL = 0.9


def items(cell: str) -> list[str]:
    """Returns the items of a cell: of a list of JSON, Python or NumPy, or its parts between blanks."""
    text = cell.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return text.split()
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError):
            values = parse(text)
            # Python joins the strings of NumPy, which has no commas.
            if isinstance(values, list) and (len(values) > 1 or "' '" not in text):
                return list(map(str, values))
    quoted = [first or second for first, second in _QUOTED.findall(text)]
    return quoted or text[1:-1].split()


def words_and_tags(table: Table) -> tuple[str, str] | None:
    """Returns the columns of the words and of the tags of entities, if rows have as many of both."""
    tagged = [each for each in table.of_kind("tags", "list") if _are_tags(each)]
    for tags in tagged:
        for words in table.of_kind("list", "text", "label"):
            if words in tagged:
                continue
            rows = [(row.get(words.name), row.get(tags.name)) for row in table.rows]
            equal = sum(len(items(str(a or ""))) == len(items(str(b or ""))) for a, b in rows)
            if equal >= _EQUAL * len(rows):
                return words.name, tags.name
    return None


def _are_tags(column: Column) -> bool:
    """Tells whether a column has the tags of entities, several in a cell."""
    tags = [tag for value in column.strings for tag in items(value)]
    return len(tags) > len(column.values) and all(map(ENTITY_TAG.fullmatch, tags))


def fit_cells(sample: Sample) -> Fit:
    """Returns how well a sentence a row fits."""
    if sample.has_records or (table := read_table(sample)) is None:
        return Fit.NO
    return Fit.CERTAIN if table.has_header and words_and_tags(table) else Fit.NO


def read_cells(path: Path, options: EntityOptions) -> Iterator[EntitySentence | InputError]:
    """Yields the sentences of a table; a row with another number of tags than words is an error."""
    table = read_table(sample_of_files([path], options.encoding))
    columns = words_and_tags(table) if table else None
    if columns is None:
        raise InputError("no columns have as many words as tags in each row", where=path)
    for record in read_delimited(path, encoding=options.encoding):
        yield value_or_error(path, record.line, _sentence, record.line, columns, record)


def _sentence(line: int, columns: Sequence[str], record: Any) -> EntitySentence:
    words, tags = (items(record.values[name]) for name in columns)
    if len(words) != len(tags):
        problem = f"there are {len(tags)} tags for the {len(words)} words {shorten(' '.join(words))!r}"
        raise InputError(problem)
    return sentence_of(words, [line] * len(words), list(map(plain_tag, tags)))
