"""The verb `inspect`: the format of a data file, and its reader block."""

import json
import logging
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any, NamedTuple

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.data.fields import TextField

from elmo_tasks.commands.base import Input, Verb, flag, option, positional
from elmo_tasks.common.table import counted
from elmo_tasks.data.formats import Doubt, Fit
from elmo_tasks.data.formats.columns import TAG, WORD
from elmo_tasks.data.formats.containers import container, problem_of_json
from elmo_tasks.data.formats.delimited import DelimitedLayout
from elmo_tasks.data.formats.profile import num_words, read_table
from elmo_tasks.data.formats.records import read_records
from elmo_tasks.data.formats.refusals import refusal
from elmo_tasks.data.formats.sample import Sample, sample_of
from elmo_tasks.data.input_files import InputError, NoWordsError, nonblank_lines
from elmo_tasks.data.reader import TaskReader, texts_of
from elmo_tasks.data.repeated_texts import RecordTexts
from elmo_tasks.evaluation.formats import PROBES, ProbeFormat

Other = tuple[str, dict[str, Any], str]
"""Another way to read data: the task, the reader's block, and the command of a probe."""
_DATA = "see the formats in docs/data.md"
CONFIGS = {
    "coref": "coref_elmo",
    "srl": "srl_elmo",
    "sst": "sst_elmo",
    "squad": "squad_elmo",
    "snli": "snli_elmo",
    "ner": "ner_elmo",
    "classification": "agnews_elmo",
}
"""The tasks, and a config of each; of those that fit equally well the first is taken."""
_VERBS = {"classification": "classify", "ner": "tag"}
_SENTENCES = ("sentence1", "sentence2")
_OF_TEXTS = ("classification", "ner", "snli", "sst")
"""The tasks that have a label, or tags, for each text."""
TASKS = {name: name for name in CONFIGS} | {"classifier": "classification"}
_TEXT, _UNLABELLED = "text for a biLM", "texts without labels"
_SHOWN = 20
_NOTES = 3
"""Files that are described; the last description is of all files."""
LEFT_OUT = "left out: "
_MOST_TEXTS = 2
_SPLITS = {"train", "training", "dev", "val", "valid", "validation", "test"}
_RECURS = 5
"""The records of the largest class, from which a class of one record is odd."""


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
    labels: dict[str, int] = field(default_factory=dict)
    """The number of records of each class, or of spans of each type, the most frequent first."""
    notes: list[str] = field(default_factory=list)
    """The reader's own description of each file."""
    warnings: list[str] = field(default_factory=list)
    """The reader's warnings of oddities that it reads nevertheless."""
    dataset_reader: dict[str, Any] = field(default_factory=dict)
    """The block of a config; empty for data of a probe, which a command reads."""
    command: str = ""
    doubt: list[str] = field(default_factory=list)
    """The questions that the data leave open, with the options that decide them."""
    texts: RecordTexts | None = None
    """The texts of tasks with a label, or tags, for each."""


class Reading(NamedTuple):
    """A way to read data, which a sample shows, or the `problem` of the way that is nearest."""

    task: str
    fit: Fit
    keys: dict[str, Any]
    doubts: Sequence[Doubt] = ()
    probe: ProbeFormat | None = None
    problem: InputError | None = None
    columns: Sequence[str] = ()
    """See `Finding`."""


def text_option() -> Any:
    about = "the column of the text; --text A --text B for a pair"
    return option(about, [], metavar="COLUMN", action="append")


class Inspect(Verb):
    name = "inspect"
    help = "The format of a data file, and its reader block."
    description = """Reads data with the readers of the tasks, and tells which of them fit: the format, the
        encoding, how many sentences, tokens, and labels of each class there are, oddities with file and
        line, and the dataset_reader block to paste into a config. For data of a probe, and a text for a
        biLM, it shows the command that reads them. It writes nothing."""

    path: Input = positional("PATH", "file, folder, pattern, archive or URL, as in train_data_path")
    task: str | None = option("the task (default: all that fit)", choices=TASKS)
    label: str | None = option("the column of the labels or tags", metavar="COLUMN")
    text: list[str] = text_option()
    json: bool = flag("print one JSON object")

    def run(self) -> None:
        sample = sample_of(self.path, self.label, self.text)
        readings = find_readings(sample, None if self.task is None else TASKS[self.task])
        inspection, others = read_best(self.path, readings, sample)
        if self.json:
            also = [{"task": task, "dataset_reader": block} for task, block, _ in others]
            shown = asdict(replace(inspection, texts=None)) | {"also": also}
            del shown["texts"]
            print(json.dumps(shown, ensure_ascii=False, indent=2))
        else:
            print("\n".join([*description(self.path, inspection), *self._commands(inspection, others)]))

    def _commands(self, first: Inspection, others: list[Other]) -> list[str]:
        """Returns the block of the config, other possibilities, and the command that reads data."""
        block = json.dumps(first.dataset_reader, ensure_ascii=False, indent=2)
        return [
            *([] if first.command else ["", f"dataset_reader: {block}"]),
            *(f"also possible: {command or self._training(task, block)}" for task, block, command in others),
            "",
            first.command or self._use(first),
        ]

    def _use(self, inspection: Inspection) -> str:
        """Returns the command that trains on data or, without labels, predicts."""
        block = inspection.dataset_reader
        if inspection.labels:
            return self._training(inspection.task, block)
        words = ["allennlp", "predict", f"elmo:{inspection.task}", self.path, "--use-dataset-reader"]
        keys = _overrides(block)
        return shlex.join(words + (["--overrides", json.dumps(keys, ensure_ascii=False)] if keys else []))

    def _training(self, task: str, block: dict[str, Any]) -> str:
        """Returns the command that trains by a block, with the names of the columns."""
        if (verb := _VERBS.get(task)) is None:
            return _train_command(CONFIGS[task], task, self.path, _overrides(block))
        label, texts = block.get("label"), [block[name] for name in _SENTENCES if name in block]
        if task == "ner" and len(columns := block.get("columns", ())) > 2:
            label, *texts = (f"column{columns.index(name) + 1}" for name in (TAG, WORD))
        words = ["allennlp", "elmo", verb, self.path, "-o", f"runs/{task}"]
        words += ["--label", label] if isinstance(label, str) else []  # else a column for each label
        words += _text_options(texts)
        return shlex.join(words + ["--skip-bad"] * ("skip_bad" in block))


def _text_options(columns: Iterable[str]) -> list[str]:
    return [word for column in columns for word in ("--text", column)]


def _overrides(block: Mapping[str, Any]) -> dict[str, Any]:
    return {f"dataset_reader.{key}": value for key, value in block.items() if key != "type"}


def find_readings(sample: Sample, task: str | None = None) -> list[Reading]:
    """
    Returns the ways in which a task, or all tasks and probes, read data, by what a sample shows: what fits
    best first, and of equal fits those of probes, problems, a text for a biLM, and the tasks as in `CONFIGS`.
    """
    if error := refusal(sample) or _problem_of_choice(sample):
        raise error
    probes = [] if task else [Reading(each.name, each.fit(sample), {}, probe=each) for each in PROBES]
    texts = [] if task or not is_plain_text(sample) else [Reading(_TEXT, Fit.POSSIBLE, {})]
    problem = problem_of_json(sample) if task in (None, *_VERBS) else None
    problems = [Reading("JSON", Fit.POSSIBLE, {}, problem=problem)] if problem else []
    of_tasks: list[Reading] = []
    for name in [task] if task else CONFIGS:
        with _logged():
            fit, candidates, problem, doubts, unlabelled, columns = reader_class(name).find(sample)
        if unlabelled is not None:
            of_tasks.append(Reading(_UNLABELLED, Fit.POSSIBLE, unlabelled, doubts))
        elif problem is not None:
            problems.append(Reading(name, fit, {}, problem=problem))
        elif fit > Fit.POSSIBLE or not _is_list(sample):
            of_tasks += [Reading(name, fit, keys, doubts, columns=columns) for keys in candidates]
    readings = [each for each in (*probes, *problems, *texts, *of_tasks) if each.fit]
    if task and not readings:  # its reader says what is missing; those of many formats do not know which
        problem = _problem_of_other_task(sample, task) if task in _VERBS else None
        readings = [Reading(task, Fit.POSSIBLE, {}, problem=problem)]
    readings.sort(key=lambda reading: -reading.fit)
    chosen = {sample.label, *sample.texts} - {None}
    can_choose = [each for each in readings if each.problem or chosen <= _columns(each)]
    if readings and not readings[0].problem and all(each.problem for each in can_choose):
        what = f"--label and --text choose nothing in {container(sample)}, read as {readings[0].task}"
        if known := readings[0].columns:
            unknown = next(name for name in (sample.label, *sample.texts) if name and name not in known)
            what = f"no column is {unknown!r}, only {', '.join(known)}"
        raise InputError(what, where=sample.files[0])
    return can_choose


def _problem_of_choice(sample: Sample) -> InputError | None:
    """Returns the error of columns that cannot be the label and the texts of anything."""
    columns = [each for each in (sample.label, *sample.texts) if each]
    if len(sample.texts) > _MOST_TEXTS:
        return InputError(f"--text takes a column, or both of a pair, not {', '.join(sample.texts)}")
    twice = [name for name in columns if columns.count(name) > 1]
    return InputError(f"--label and --text choose the column {twice[0]!r} twice") if twice else None


def _columns(reading: Reading) -> set[str | None]:
    """Returns the columns that a reading takes or may be told to take."""
    values = chain.from_iterable(
        each if isinstance(each, list) else [each] for each in reading.keys.values() if each
    )
    return {*reading.columns, *(each for each in values if isinstance(each, str))}


def _problem_of_other_task(sample: Sample, task: str) -> InputError:
    """Returns the error that says what data are that a task does not read, and which task does."""
    others = [each for each in find_readings(sample) if each.fit > Fit.POSSIBLE or each.probe is None]
    remedy = _DATA
    if others and others[0].problem is None:
        other = others[0].task
        remedy = f"it is {other}" + (f": `allennlp elmo {_VERBS[other]}` reads it" if other in _VERBS else "")
    what = f"this is {container(sample)}, which {task} does not read"
    return InputError(what, where=sample.files[0], remedy=remedy)


def _is_list(sample: Sample) -> bool:
    """Tells whether the lines are a list of words, such as a vocabulary, without sentences."""
    return not (sample.has_blank_lines or sample.is_json) and all(
        len(line.split()) == 1 for line in sample.lines
    )


def read_best(path: str, readings: Sequence[Reading], sample: Sample) -> tuple[Inspection, list[Other]]:
    """Reads data in the first way that works, of those that fit best; returns others that may be meant."""
    error: Exception | None = None
    for index, reading in enumerate(readings):
        if reading.fit < readings[0].fit:
            break  # what fits better says what is wrong
        if reading.problem is not None:
            raise reading.problem
        try:
            inspection = read(path, reading, sample)
        except (ConfigurationError, ValueError, OSError) as failure:
            error = error or failure
            continue
        others = _others(reading, readings[index + 1 :])
        return inspection, [_other(path, each, sample) for each in others]
    raise error or InputError(f"this is {container(sample)}, which no task reads", where=path, remedy=_DATA)


def _others(chosen: Reading, readings: Iterable[Reading]) -> Iterator[Reading]:
    """Yields other readings that may be meant: all of the chosen task, and of each other task the first."""
    tasks: set[str] = set()
    for reading in readings:
        is_likely = reading.fit == chosen.fit or (reading.fit > Fit.POSSIBLE and reading.probe is None)
        if is_likely and reading.problem is None and reading.task not in (_UNLABELLED, *tasks):
            yield reading
            tasks |= {reading.task} - {chosen.task}


def _other(path: str, reading: Reading, sample: Sample) -> Other:
    if reading.probe:
        return reading.task, {}, reading.probe.command.format(path=shlex.quote(path))
    if reading.task == _TEXT:
        return reading.task, {}, _train_command("bilm", "bilm", path, {})
    return reading.task, _block(reading, sample), ""


def _name_of_reader(task: str) -> str:
    return "elmo_classifier" if task == "classification" else f"elmo_{task}"


def reader_class(task: str) -> type[TaskReader]:
    cls = DatasetReader.by_name(_name_of_reader(task))
    assert issubclass(cls, TaskReader)
    return cls


def _block(reading: Reading, sample: Sample) -> dict[str, Any]:
    encoding = {} if sample.encoding == "utf-8" else {"encoding": sample.encoding}
    keys = reader_class(reading.task).completed(sample, reading.keys)
    return {"type": _name_of_reader(reading.task), **keys, **encoding}


def read(path: str, reading: Reading, sample: Sample) -> Inspection:
    """Reads data in a way that was found."""
    if reading.task == _TEXT:
        return _read_text(path, sample)
    if reading.probe:
        command = reading.probe.command.format(path=shlex.quote(path))
        return _of_command(reading.task, sample, len(reading.probe.read(path)), 0, command)
    if reading.task == _UNLABELLED:
        inspection = _read_unlabelled(path, reading.keys, sample)
    else:
        inspection = read_with(reading.task, path, _block(reading, sample), sample)
    asked = [f"{doubt.question()}; --{doubt.what} chooses another column" for doubt in reading.doubts]
    return replace(inspection, doubt=asked)


def read_with(task: str, path: str, block: dict[str, Any], sample: Sample) -> Inspection:
    """
    Reads data with the reader of a block. Bad records are left out, and told as warnings; if most are bad,
    the first error is raised.
    """
    cls = reader_class(task)
    keys = {name: value for name, value in block.items() if name != "type"}
    reader = cls(**keys | {"skip_bad": True}, **cls.whole_files)
    labels: Counter[str] = Counter()
    sizes: list[int] = []
    texts: list[TextField] = []
    record_texts = RecordTexts() if task in _OF_TEXTS else None
    with _logged() as log:
        try:
            for instance in reader.read(path):
                before, texts = texts, texts_of([instance])
                labels.update(reader.labels_of(instance))
                shared = reader.record_field
                if not (sizes and shared and any(instance[shared] is text for text in before)):
                    sizes.append(0)
                sizes[-1] += sum(len(text) for text in texts if not any(text is other for other in before))
                if record_texts is not None:
                    record_texts.add(instance)
        except InputError:
            if sizes or not reader.bad_records:
                raise
    if bad := reader.bad_records:
        damaged = [error for error in bad if not isinstance(error, NoWordsError)]
        if len(damaged) > len(sizes) or not labels:
            raise bad[0]
        block = block | {"skip_bad": True}
    more = [f"{len(bad) - _SHOWN} more records"] if len(bad) > _SHOWN else []
    odd = [f"{LEFT_OUT}{each}" for each in (*bad[:_SHOWN], *more)]
    told = [each for each in log if "skip_bad" not in str(each.msg)]
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
        notes=[each.getMessage() for each in told if each.levelno < logging.WARNING],
        warnings=[
            *(each.getMessage() for each in told if each.levelno >= logging.WARNING),
            *odd,
            *_odd_labels(task, labels),
            *_odd_splits(path, sample),
            *([] if record_texts is None else record_texts.warnings()),
        ],
        dataset_reader=block,
        texts=record_texts,
    )


def _odd_labels(task: str, labels: Counter[str]) -> Iterator[str]:
    """Yields what is odd in labels: some that differ in case or blanks alone, and classes of one record."""
    by_name: dict[str, list[str]] = {}
    for label in labels:
        by_name.setdefault(" ".join(label.casefold().split()), []).append(label)
    for same in by_name.values():
        if len(same) > 1:
            yield f"the labels {' and '.join(map(repr, same))} differ in their spelling alone"
    once = [label for label, count in labels.items() if count == 1]
    if task == "classification" and len(once) == len(labels):
        yield "each class has one record"
    elif task == "classification" and once and max(labels.values()) >= _RECURS:
        yield f"classes of one record: {', '.join(map(repr, once[:_SHOWN]))}"


def _odd_splits(path: str, sample: Sample) -> Iterator[str]:
    """Yields what is odd in files, or in a column, that name the splits of a set, all of which are read."""
    folder = Path(os.path.commonpath([file.parent for file in sample.files]))
    by_split: dict[str, str] = {}
    for file in sample.files:
        parts = file.relative_to(folder).parts
        words = ((i, word) for i, part in enumerate(parts, 1) for word in re.split(r"[\W_\d]", part.lower()))
        if found := next(((i, word) for i, word in words if word in _SPLITS), None):
            by_split.setdefault(found[1], "/".join(parts[: found[0]]))
    if len(by_split) > 1:
        train = next((by_split[name] for name in by_split if name.startswith("train")), None)
        mark = "/" if os.path.isdir(path) else "!" if os.path.isfile(path) else None
        place = train if mark is None else f"{path}{mark}{train}"
        remedy = f"; give {place} as TRAIN" if train else ""
        yield f"{', '.join(by_split)} are read together{remedy}"
    columns = table.columns.values() if (table := read_table(sample)) else ()
    for column in columns:
        if len(column.counts) > 1 and {value.lower() for value in column.counts} <= _SPLITS:
            names = ", ".join(column.counts)
            yield f"{names} of the column {column.name!r} are read together; write the rows of each to a file"


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


def is_plain_text(sample: Sample) -> bool:
    """Tells whether the lines are sentences, as a biLM reads them, and no list of words."""
    sizes = [num_words(line) for line in sample.lines]
    has_marks = any("\t" in line or line.startswith(("{", "[", "(", "<", "#", ">")) for line in sample.lines)
    are_sentences = len(set(sizes)) > 2 or min(sizes, default=0) > 4 or (len(sizes) == 1 and sizes[0] > 2)
    return not has_marks and read_table(sample) is None and are_sentences


def _read_text(path: str, sample: Sample) -> Inspection:
    lines = (line for file in sample.files for _, line in nonblank_lines(file, sample.encoding))
    sizes = [len(line.split()) for line in lines]
    return _of_command(_TEXT, sample, len(sizes), sum(sizes), _train_command("bilm", "bilm", path, {}))


def _read_unlabelled(path: str, keys: Mapping[str, Any], sample: Sample) -> Inspection:
    columns, layout = keys["texts"], DelimitedLayout(keys["columns"] or None)
    archive = "elmo:ner" if len(columns) == 1 else "elmo:snli"
    read = partial(read_records, layout=layout, encoding=sample.encoding)
    rows = [record.make(dict) for file in sample.files for record in read(file)]
    values = [row for row in rows if not isinstance(row, InputError)]
    tokens = sum(len(str(row.get(column) or "").split()) for row in values for column in columns)
    command = shlex.join(["allennlp", "predict", archive, path, *_text_options(columns)])
    inspection = _of_command(_UNLABELLED, sample, len(values), tokens, command)
    note = f"no labels: an archive predicts them, such as {archive} or your own"
    return replace(inspection, columns={"texts": columns}, notes=[note])


def _of_command(task: str, sample: Sample, records: int, tokens: int, command: str) -> Inspection:
    """Returns the inspection of data that a command reads, without a reader's block."""
    return Inspection(
        task=task, format=task, encoding=sample.encoding, records=records, tokens=tokens, command=command
    )


def description(path: str, inspection: Inspection) -> list[str]:
    """Returns lines that tell what the data are."""
    labels = list(inspection.labels.items())
    shown = ", ".join(f"{label} {count:,}" for label, count in labels[:_SHOWN])
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    columns = [f"{role}: {', '.join(names)}" for role, names in inspection.columns.items() if names]
    tokenizer = inspection.dataset_reader.get("tokenizer")
    records = counted(inspection.records, "record")
    tokens = f", {counted(inspection.tokens, 'token')}" if inspection.tokens else ""
    # The reader's own counts are of files, and say again what is above.
    notes = [note for note in inspection.notes if inspection.task != "classification" or "left out" in note]
    longest = f"record {inspection.longest_record:,} with {inspection.longest:,} tokens"
    of_reader = [
        f"labels: {shown}{more}" if labels else "no labels: it serves predictions",
        f"longest: {longest}",
    ]
    lines = [
        f"{records}{tokens}{f' by the tokenizer {tokenizer}' if tokenizer else ''}",
        *filter(None, ["; ".join(columns)]),
        *([] if inspection.command else of_reader),
        *notes[-_NOTES:],
        *(f"odd: {warning}" for warning in inspection.warnings),
        *(f"in doubt: {doubt}" for doubt in inspection.doubt),
    ]
    format = "" if inspection.command else f"format {inspection.format}, "
    return [
        f"{path}: {inspection.task}, {format}{inspection.encoding}",
        *(f"  {line}" for line in lines),
    ]


def _train_command(config: str, name: str, path: str, keys: dict[str, Any]) -> str:
    """Returns a command that can be pasted: the data to train on also choose the epoch."""
    keys = keys | {"train_data_path": path, "validation_data_path": path}
    overrides = shlex.quote(json.dumps(keys, ensure_ascii=False))
    return f"allennlp train training_configs/{config}.jsonnet -s runs/{name} --overrides {overrides}"
