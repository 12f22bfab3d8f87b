"""The formats, counts and oddities of data, as the tasks' readers find them."""

import logging
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from logging.handlers import BufferingHandler
from typing import Any, NamedTuple

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.data.fields import TextField

from elmo_tasks.data.formats import POSSIBLE, FileSample, evidence_of
from elmo_tasks.data.formats.tables import has_sentences
from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.reader import TaskReader, texts_of

_READERS = {"classification": "classifier"}
_MARKS = ",;|"
"""Marks between the columns of a table. The lines of a text do not all have the same number of one."""


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Data as a reader reads them."""

    task: str
    format: str
    encoding: str
    records: int
    """The number of sentences, pairs, documents or questions."""
    tokens: int
    longest: int = 0
    longest_record: int = 0
    """Its index among the records, from 1."""
    columns: dict[str, list[str]] = field(default_factory=dict)
    """See `TaskReader.columns_of`."""
    labels: dict[str, int] = field(default_factory=dict)
    """The number of records of each class, or of spans of each type, the most frequent first."""
    notes: list[str] = field(default_factory=list)
    """The reader's own description of each file."""
    warnings: list[str] = field(default_factory=list)
    """The reader's warnings of oddities that it reads nevertheless."""
    dataset_reader: dict[str, Any] = field(default_factory=dict)
    """The block of a config; empty for data of a probe, which a command reads."""
    command: str = ""
    evidence: float = 0.0
    """How sure it is that the data are of this task, from 0 to 1."""


class Readings(NamedTuple):
    """How a task reads data: in each way that works, the likeliest first; or why it does not."""

    found: list[Inspection]
    evidence: float
    """The evidence that the data are the task's, see `data.formats`."""
    problem: str = ""


def inspect(task: str, path: str, sample: FileSample) -> Readings:
    """Reads data as a task does, once with each of its `TaskReader.candidates`."""
    name = f"elmo_{_READERS.get(task, task)}"
    cls = DatasetReader.by_name(name)
    assert issubclass(cls, TaskReader)
    evidence = evidence_of(cls.record_kind, sample)
    found: list[Inspection] = []
    problems: list[str] = []
    try:
        with _logged():
            candidates = list(cls.candidates(sample))
    except InputError as error:
        return Readings([], evidence, str(error))
    for keys in candidates:
        block = {"type": name, **keys}
        if sample.encoding != "utf-8":
            block["encoding"] = sample.encoding
        try:
            found.append(read_with(task, path, block, sample, evidence))
        except (ConfigurationError, ValueError, OSError) as error:
            problems.append(str(error))
    found.sort(key=lambda each: -sum(each.labels.values()))
    found = [each for each in found if each.labels or not found[0].labels]
    problem = "" if found else (problems or [f"{path}: no column has two classes or more"])[0]
    return Readings(found, evidence, problem)


def read_with(
    task: str, path: str, block: dict[str, Any], sample: FileSample, evidence: float = 0.0
) -> Inspection:
    """Reads data with the reader of a block, whose errors it raises."""
    cls = DatasetReader.by_name(block["type"])
    assert issubclass(cls, TaskReader)
    keys = {name: value for name, value in block.items() if name != "type"}
    reader = cls(**keys, **cls.whole_files)
    labels: Counter[str] = Counter()
    sizes: list[int] = []
    texts: list[TextField] = []
    with _logged() as log:
        for instance in reader.read(path):
            before, texts = texts, texts_of([instance])
            shared = reader.record_field
            if not (sizes and shared and any(instance[shared] is text for text in before)):
                sizes.append(0)
            sizes[-1] += sum(len(text) for text in texts if not any(text is other for other in before))
            labels.update(reader.labels_of(instance))
    longest = max(sizes, default=0)
    return Inspection(
        task=task,
        format=reader.format_of(sample.files),
        encoding=sample.encoding,
        records=len(sizes),
        tokens=sum(sizes),
        longest=longest,
        longest_record=sizes.index(longest) + 1 if sizes else 0,
        columns=reader.columns_of(sample.files),
        labels=dict(labels.most_common()),
        notes=[each.getMessage() for each in log if each.levelno < logging.WARNING],
        warnings=[each.getMessage() for each in log if each.levelno >= logging.WARNING],
        dataset_reader=block,
        evidence=evidence if labels else _evidence_without_labels(evidence, sample),
    )


def _evidence_without_labels(evidence: float, sample: FileSample) -> float:
    """Returns the evidence for data that were read without labels, since many tasks can read them."""
    lines = [line for line in sample.lines if not line.lstrip().startswith(("{", "["))]
    counts = [{line.count(mark) for line in lines} for mark in _MARKS]
    is_table = any(len(each) == 1 and 0 not in each for each in counts)
    # A list of words, such as a vocabulary, has no empty lines between sentences.
    is_list = bool(lines) and all(len(line.split()) == 1 for line in lines) and not has_sentences(sample)
    return 0.0 if is_table or is_list else min(evidence, POSSIBLE)


@contextmanager
def _logged() -> Iterator[list[logging.LogRecord]]:
    """Collects what readers log, in place of showing it."""
    logger = logging.getLogger("elmo_tasks")
    before = logger.level, logger.propagate
    collector = BufferingHandler(sys.maxsize)
    logger.addHandler(collector)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield collector.buffer
    finally:
        logger.removeHandler(collector)
        logger.level, logger.propagate = before
