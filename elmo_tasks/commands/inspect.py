"""The verb `inspect`: the format of a data file, and its reader block."""

import json
import logging
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from logging.handlers import BufferingHandler
from typing import Any, NamedTuple

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.data.fields import TextField

from elmo_tasks.commands.base import Input, Verb, flag, option, positional
from elmo_tasks.data.formats import Doubt, Fit
from elmo_tasks.data.formats.columns import TAG, WORD
from elmo_tasks.data.formats.containers import container
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
    """A way to read data, which a sample shows."""

    task: str
    fit: Fit
    keys: dict[str, Any]
    doubts: Sequence[Doubt] = ()
    probe: ProbeFormat | None = None


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
    text: list[str] = option("the column of the text, or both of a pair", [], metavar="COLUMN", nargs="+")
    json: bool = flag("print one JSON object")

    def run(self) -> None:
        sample = sample_of(self.path, self.label, self.text)
        readings, problem = find_readings(sample, list(CONFIGS) if self.task is None else [TASKS[self.task]])
        if self.task is None:
            readings = [*readings_of_probes(sample), *readings]
        readings.sort(key=lambda reading: -reading.fit)
        inspection, others = read_best(self.path, readings, sample, problem)
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
        words += ["--text", *texts] if texts else []
        return shlex.join(words + ["--skip-bad"] * ("skip_bad" in block))


def _overrides(block: Mapping[str, Any]) -> dict[str, Any]:
    return {f"dataset_reader.{key}": value for key, value in block.items() if key != "type"}


def find_readings(sample: Sample, tasks: Sequence[str]) -> tuple[list[Reading], InputError | None]:
    """
    Returns the ways in which tasks read data, by what a sample shows. If there are none, the error says what
    the likeliest of them lacks.
    """
    if error := refusal(sample):
        raise error
    readings: list[Reading] = []
    problems: list[tuple[Fit, InputError]] = []
    for task in tasks:
        with _logged():
            fit, candidates, problem, doubts, unlabelled = reader_class(task).find(sample)
        if unlabelled is not None:
            readings.append(Reading(_UNLABELLED, Fit.POSSIBLE, unlabelled, doubts))
        elif problem is not None:
            problems.append((fit, problem))
        elif fit > Fit.POSSIBLE or (fit and not _is_list(sample)):
            readings += [Reading(task, fit, keys, doubts) for keys in candidates]
    if len(tasks) == 1 and tasks != ["classification"] and not (readings or problems):
        readings.append(Reading(tasks[0], Fit.POSSIBLE, {}))  # its reader says why it cannot
    fit, problem = max(problems, key=lambda pair: pair[0], default=(Fit.NO, None))
    is_likeliest = fit > Fit.POSSIBLE >= max((reading.fit for reading in readings), default=Fit.NO)
    return ([], problem) if is_likeliest else (readings, problem)


def _is_list(sample: Sample) -> bool:
    """Tells whether the lines are a list of words, such as a vocabulary, without sentences."""
    return not (sample.has_blank_lines or sample.is_json) and all(
        len(line.split()) == 1 for line in sample.lines
    )


def readings_of_probes(sample: Sample) -> Iterator[Reading]:
    for probe in PROBES:
        if fit := probe.fit(sample):
            yield Reading(probe.name, fit, {}, probe=probe)
    if is_plain_text(sample):
        yield Reading(_TEXT, Fit.POSSIBLE, {})


def read_best(
    path: str, readings: Sequence[Reading], sample: Sample, problem: InputError | None
) -> tuple[Inspection, list[Other]]:
    """
    Reads data in the first way that works, and returns the others that may be meant. The error of a sample is
    raised if nothing is likelier.
    """
    error: Exception | None = None
    for index, reading in enumerate(readings):
        if reading.fit < readings[0].fit:
            break  # what fits better says what is wrong
        try:
            inspection = read(path, reading, sample)
        except (ConfigurationError, ValueError, OSError) as failure:
            error = error or failure
            continue
        others = _others(reading, readings[index + 1 :])
        return inspection, [_other(path, each, sample) for each in others]
    error = error or problem
    raise error or InputError(f"this is {container(sample)}, which no task reads", where=path, remedy=_DATA)


def _others(chosen: Reading, readings: Iterable[Reading]) -> Iterator[Reading]:
    """Yields other readings that may be meant: all of the chosen task, and of each other task the first."""
    tasks: set[str] = set()
    for reading in readings:
        is_likely = reading.fit == chosen.fit or (reading.fit > Fit.POSSIBLE and reading.probe is None)
        if is_likely and reading.task not in (_UNLABELLED, *tasks):
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
                    record_texts.add(instance, texts)
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
    command = shlex.join(["allennlp", "predict", archive, path, "--text", *columns])
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
    tokens = f", {inspection.tokens:,} tokens" if inspection.tokens else ""
    # The reader's own counts are of files, and say again what is above.
    notes = [note for note in inspection.notes if inspection.task != "classification" or "left out" in note]
    longest = f"record {inspection.longest_record:,} with {inspection.longest:,} tokens"
    of_reader = [
        f"labels: {shown}{more}" if labels else "no labels: it serves predictions",
        f"longest: {longest}",
    ]
    lines = [
        f"{inspection.records:,} records{tokens}{f' by the tokenizer {tokenizer}' if tokenizer else ''}",
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
