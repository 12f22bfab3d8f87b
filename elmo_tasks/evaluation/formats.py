"""
Data that other commands read than those of the tasks with a reader of many formats: of the probes, of the
evaluation of word vectors, and of the sentence encoder. Which samples are theirs, and their readers.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from elmo_tasks.data.formats import Fit
from elmo_tasks.data.formats.columns import TAG_OR_O, is_conllu, split_cells
from elmo_tasks.data.formats.profile import num_words, read_table
from elmo_tasks.data.formats.records import read_records
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.input_files import Record, input_files
from elmo_tasks.evaluation.probes import read_senses, read_tagged, read_use_pairs
from elmo_tasks.evaluation.words import is_number, read_analogies, read_pairs

_USE = {"sentence1", "sentence2", "start1", "start2", "end1", "end2"}
_SENSE = {"lemma", "tokens", "index", "sense"}
_POS_TAG = re.compile(r"[A-Z]{1,6}[$+:-]?[A-Z]*|[^\w\s]+")
_PAIRS = 0.95
"""The share of the lines that have a word and its tag, at least."""
_ENDS = ".?!\u3002"
_LONGEST = 3
"""The words of an entry of a set of similarity, such as `New York City`."""


class ProbeFormat(NamedTuple):
    """Data that a command reads, other than the readers of configs."""

    name: str
    fit: Callable[[Sample], Fit]
    read: Callable[[str], Sequence[Any]]
    command: str


def _fit_uses(sample: Sample) -> Fit:
    is_of_wic = sample.files[0].name.endswith(".data.txt") and re.search(r"\t\d+-\d+\t", sample.first_row)
    return Fit.CERTAIN if is_of_wic or {*sample.first_values, *sample.first_cells} >= _USE else Fit.NO


def _fit_senses(sample: Sample) -> Fit:
    is_xml = sample.files[0].name.removesuffix(".gz").endswith(".data.xml")
    return Fit.CERTAIN if is_xml or sample.first_values.keys() >= _SENSE else Fit.NO


def _fit_pos(sample: Sample) -> Fit:
    if is_conllu(sample.lines):
        sizes = {line.count("\t") for line in sample.lines if not line.startswith("#")}
        return Fit.LIKELY if len(sizes) == 1 else Fit.NO  # else it has roles
    rows = [split_cells(line, None) for line in sample.lines if not line.startswith("#")]
    tags = {row[-1] for row in rows if len(row) == 2}
    are_pairs = sample.has_blank_lines and sum(len(row) == 2 for row in rows) > _PAIRS * len(rows)
    are_entities = any(map(TAG_OR_O.fullmatch, tags))
    are_tags = len(tags) > 1 and not are_entities and all(map(_POS_TAG.fullmatch, tags))
    return Fit.LIKELY if are_pairs and are_tags else Fit.NO


def _rows(sample: Sample) -> list[list[str]]:
    """Returns the cells of lines of words without a delimiter, or with tabs or commas between them."""
    if sample.has_blank_lines or sample.is_json:
        return []
    lines = [line.strip() for line in sample.lines if not line.startswith(("#", ":"))]
    delimiter = next(
        (mark for mark in ("\t", ";", ",") if lines and all(mark in line for line in lines)), None
    )
    return [[cell.strip() for cell in line.split(delimiter)] for line in lines]


def _fit_similarity(sample: Sample) -> Fit:
    table = read_table(sample)
    if table is not None and table.has_header:
        rows = [[str(value) for name, value in row.items() if name] for row in table.rows]
    else:
        rows = _rows(sample)
    rows = [row for row in rows if any(row)]
    fitting = [row for row in rows if _is_pair(row)]
    pairs = {tuple(cell for cell in row if not _is_number(cell))[:2] for row in fitting}
    return Fit.LIKELY if rows and 2 * len(pairs) > len(rows) and len(fitting) > 0.8 * len(rows) else Fit.NO


def _is_pair(row: Sequence[str]) -> bool:
    """Tells whether a row has two words or more, and a number, but no sentence without a marked word."""
    words = [cell for cell in row if cell and not _is_number(cell)]
    are_short = all(
        "<b>" in cell or (num_words(cell) <= _LONGEST and cell[-1] not in _ENDS) for cell in words
    )
    return are_short and len(words) > 1 and len(words) < len([cell for cell in row if cell])


def _is_number(text: str) -> bool:
    return is_number([text], 0)


def _fit_analogies(sample: Sample) -> Fit:
    if sample.lines and sample.lines[0].startswith(":"):
        return Fit.CERTAIN
    if re.search(r"^a,b,c,d$|\bword_?3,\w+$", sample.first_row.lower()):
        return Fit.CERTAIN
    rows = _rows(sample)
    if not rows or any(" " in cell or num_words(cell) > _LONGEST for row in rows for cell in row):
        return Fit.NO
    if all(len(row) == 4 for row in rows):
        return Fit.LIKELY if not any(_is_number(cell) for row in rows for cell in row) else Fit.NO
    are_pairs = all(len(row) == 2 for row in rows) and 2 * len({row[1] for row in rows}) > len(rows)
    return Fit.POSSIBLE if are_pairs and not any(map(_is_number, chain(*rows))) else Fit.NO


def _fit_tasks(sample: Sample) -> Fit:
    """Both sentences and pairs name their task."""
    fields = [record.keys() & {"sentence", "sentence1"} for record in sample.records if "task" in record]
    return Fit.CERTAIN if {"sentence"} in fields and {"sentence1"} in fields else Fit.NO


def _read_tasks(path: str) -> list[Record]:
    return [record for file in input_files(path) for record in read_records(file)]


PROBES = (
    ProbeFormat("words in context", _fit_uses, read_use_pairs, "allennlp elmo probe wic {path} {path}"),
    ProbeFormat("word senses", _fit_senses, read_senses, "allennlp elmo probe wsd {path} {path}"),
    ProbeFormat(
        "parts of speech",
        _fit_pos,
        partial(read_tagged, column="upos"),
        "allennlp elmo probe pos {path} {path}",
    ),
    ProbeFormat("similarity", _fit_similarity, read_pairs, "allennlp elmo intrinsic --wordsim {path}"),
    ProbeFormat("analogies", _fit_analogies, read_analogies, "allennlp elmo intrinsic --analogies {path}"),
    ProbeFormat(
        "sentences of several tasks",
        _fit_tasks,
        _read_tasks,
        "allennlp train training_configs/sentence_elmo.jsonnet -s runs/sentence "
        """--overrides '{{"train_data_path": "{path}"}}'""",
    ),
)
