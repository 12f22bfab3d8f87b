"""Pairs of sentences, of which the first may entail the second: SNLI, MultiNLI, ANLI, SICK and the like."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from elmo_tasks.data.formats.base import CERTAIN, LIKELY, FileSample, Format
from elmo_tasks.data.formats.records import read_records
from elmo_tasks.data.formats.tables import UNDECIDED, Table, read_table, text_columns
from elmo_tasks.data.input_files import InputError, shorten

ENTAILMENT_LABELS = ("entailment", "neutral", "contradiction")
OTHER_NAMES = {label[0]: label for label in ENTAILMENT_LABELS} | {
    label.upper(): label for label in ENTAILMENT_LABELS
}
UNDECIDED_PAIRS = (UNDECIDED, "-1")
COLUMN_NAMES = {
    "premise": ("sentence1", "premise", "context", "sentence_a"),
    "hypothesis": ("sentence2", "hypothesis", "hypo", "sentence_b"),
    "label": ("gold_label", "label", "entailment_judgment", "entailment_label"),
}
"""The names that published sets give to a column, in small letters."""
_FIRST_RECORDS = 1000


def known_column(name: str, columns: Iterable[str]) -> str | None:
    """Returns the column with one of the names of published sets, whatever its case."""
    known = COLUMN_NAMES[name]
    exact = next((each for each in known if each in columns), None)
    return exact or next((column for each in known for column in columns if column.lower() == each), None)


def entailment_keys(sample: FileSample) -> Iterator[dict[str, Any]]:
    """
    Yields the keys of a reader of pairs; the labels may be numbers, or others than SNLI's.

    # Raises
    `InputError`: the labels of pairs do not say what they mean, such as 0 and 1 in RTE, WNLI and MRPC.
    """
    table = read_table(sample)
    if table is None:
        yield {}
        return
    columns: dict[str, Any] = {}
    label = known_column("label", table.columns)
    if not table.header:
        label = _entailment_column(table)
        texts = text_columns(table, label) if label else []
        if len(texts) < 2:
            return
        columns = {"columns": table.columns, "label": label, "premise": texts[0], "hypothesis": texts[1]}
    classes = {*table.classes(label)} - {*UNDECIDED_PAIRS} if label else set()
    if not classes or classes <= {*ENTAILMENT_LABELS, *OTHER_NAMES}:
        yield columns
    elif classes == {"0", "1", "2"}:
        yield columns | {"label_names": {str(i): name for i, name in enumerate(ENTAILMENT_LABELS)}}
    elif known_column("premise", table.columns) == "premise" or _are_entailment(classes):
        yield columns | {"classes": sorted(classes)}
    elif _has_pair(table):
        problem = f"the labels {shorten(', '.join(sorted(classes)))} in the column {label!r} are not SNLI's"
        remedy = (
            'say what they mean, for RTE {"classes": ["entailment", "not_entailment"], '
            '"label_names": {"0": "entailment", "1": "not_entailment"}}'
        )
        raise InputError(problem, where=sample.files[0], remedy=remedy)


def _entailment_column(table: Table) -> str | None:
    return next((name for name in table.columns if _are_entailment(table.classes(name))), None)


def _are_entailment(classes: Iterable[str]) -> bool:
    return any("entail" in name for name in classes)


def _has_pair(table: Table) -> bool:
    return all(known_column(name, table.columns) for name in ("premise", "hypothesis"))


def _detect_pairs(sample: FileSample) -> float:
    table = None
    with suppress(InputError):
        table = read_table(sample, _FIRST_RECORDS)
    if table is None:
        return 0
    label = known_column("label", table.columns) if table.header else _entailment_column(table)
    if label is None or (table.header and not _has_pair(table)):
        return 0
    classes = {*table.classes(label)} - {*UNDECIDED_PAIRS}
    of_snli = classes <= {*ENTAILMENT_LABELS, *OTHER_NAMES} or _are_entailment(classes)
    return CERTAIN if of_snli or "premise" in table.columns else LIKELY


FORMATS = (Format("auto", _detect_pairs, read_records),)
