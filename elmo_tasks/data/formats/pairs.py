"""Pairs of sentences, of which the first may entail the second: SNLI, MultiNLI, ANLI, SICK and the like."""

from collections.abc import Iterable
from typing import Any

from elmo_tasks.data.formats import CERTAIN, LIKELY, FileSample, Finding
from elmo_tasks.data.formats.tables import UNDECIDED, read_table, text_columns
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


def known_column(name: str, columns: Iterable[str]) -> str | None:
    """Returns the column with one of the names of published sets, whatever its case."""
    known = COLUMN_NAMES[name]
    exact = next((each for each in known if each in columns), None)
    return exact or next((column for each in known for column in columns if column.lower() == each), None)


def find_pairs(sample: FileSample) -> Finding:
    """
    Returns how a reader of pairs reads data. The labels may be numbers, or others than SNLI's; the labels 0
    and 1 in RTE, WNLI and MRPC do not say what they mean.
    """
    table = read_table(sample)
    if table is None:
        return Finding(0)
    if table.problem:
        return Finding(0, problem=table.problem)
    columns: dict[str, Any] = {}
    label = known_column("label", table.columns)
    if not table.header:
        label = next((name for name in table.columns if _are_entailment(table.classes(name))), None)
        texts = text_columns(table, label) if label else []
        if len(texts) < 2:
            return Finding(0)
        columns = {"columns": table.columns, "label": label, "premise": texts[0], "hypothesis": texts[1]}
    has_pair = columns or all(known_column(name, table.columns) for name in ("premise", "hypothesis"))
    classes = {*table.classes(label)} - {*UNDECIDED_PAIRS} if label else set()
    of_snli = classes <= {*ENTAILMENT_LABELS, *OTHER_NAMES}
    evidence = 0.0
    if label and has_pair:
        is_named = of_snli or _are_entailment(classes) or "premise" in table.columns
        evidence = CERTAIN if is_named else LIKELY
    if of_snli:
        return Finding(evidence, [columns])
    if classes == {"0", "1", "2"}:
        names = {str(i): name for i, name in enumerate(ENTAILMENT_LABELS)}
        return Finding(evidence, [columns | {"label_names": names}])
    if known_column("premise", table.columns) == "premise" or _are_entailment(classes):
        return Finding(evidence, [columns | {"classes": sorted(classes)}])
    if not has_pair:
        return Finding(0)
    problem = f"the labels {shorten(', '.join(sorted(classes)))} in the column {label!r} are not SNLI's"
    remedy = (
        'say what they mean, for RTE {"classes": ["entailment", "not_entailment"], '
        '"label_names": {"0": "entailment", "1": "not_entailment"}}'
    )
    return Finding(evidence, problem=InputError(problem, where=sample.files[0], remedy=remedy))


def _are_entailment(classes: Iterable[str]) -> bool:
    return any("entail" in name for name in classes)
