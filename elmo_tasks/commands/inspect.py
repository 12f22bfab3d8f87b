"""The verb `inspect`: the format of a data file, and its reader block."""

import json
import logging
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from logging.handlers import BufferingHandler
from typing import Any, NamedTuple

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.data.fields import TextField

from elmo_tasks.commands.base import Input, Verb, flag, option, positional
from elmo_tasks.data.formats import LIKELY, POSSIBLE
from elmo_tasks.data.formats.tables import has_header, has_sentences, names_texts
from elmo_tasks.data.input_files import FileSample, InputError, nonblank_lines, sample_of, shorten
from elmo_tasks.data.reader import TaskReader, texts_of
from elmo_tasks.evaluation.probes import read_senses, read_tagged, read_use_pairs
from elmo_tasks.evaluation.words import read_analogies, read_pairs

CONFIGS = {
    "coref": "coref_elmo",
    "srl": "srl_elmo",
    "sst": "sst_elmo",
    "squad": "squad_elmo",
    "snli": "snli_elmo",
    "ner": "ner_elmo",
    "classification": "agnews_elmo",
}
"""The tasks, and a config of each; those that read fewer files come first."""
_VERBS = {"classification": "classify", "ner": "tag"}
TASKS = {name: name for name in CONFIGS} | {"classifier": "classification"}
_PROBES: list[tuple[str, Callable[[str], Sequence[Any]], str, float]] = [
    ("words in context", read_use_pairs, "allennlp elmo probe wic {path} {path}", 1.0),
    ("word senses", read_senses, "allennlp elmo probe wsd {path} {path}", 1.0),
    ("parts of speech", partial(read_tagged, column="upos"), "allennlp elmo probe pos {path} {path}", 0.5),
    ("similarity", read_pairs, "allennlp elmo intrinsic --wordsim {path}", LIKELY),
    ("analogies", read_analogies, "allennlp elmo intrinsic --analogies {path}", 0.5),
]
"""The data of probes: their name, reader and command, and the evidence that a reading is."""
_TEXT = 0.4
"""The evidence for a text: more than for what any text can be read as."""
_MOST_BLANKS = 2
"""Blanks in a word of a set of similarity, such as `New York City`."""
_SHOWN = 20
_NOTES = 3
"""Files that are described; the last description is of all files."""
LEFT_OUT = "left out: "
_FEW = 0.1
"""The share of bad records up to which a format is as likely."""
_RECURS = 5
"""The records of the largest class, from which a class of one record is odd."""
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
        tasks = list(CONFIGS) if self.task is None else [TASKS[self.task]]
        readings = {task: inspect(task, self.path, sample) for task in tasks}
        fits = [each for reading in readings.values() for each in reading.inspections]
        if self.task is None:
            least = max((each.evidence for each in fits), default=0.0)
            fits += data_of_probes(self.path, sample, least=least)
            fits = [each for each in fits if each.evidence > 0]
        fits.sort(key=lambda each: -each.evidence)
        failed = {task: reading for task, reading in readings.items() if reading.problem}
        likeliest = max(failed.values(), key=lambda each: each.evidence, default=None)
        if likeliest and likeliest.evidence >= LIKELY and not any(each.evidence >= LIKELY for each in fits):
            raise InputError(likeliest.problem)
        if not fits:
            most = max(reading.evidence for reading in failed.values())
            reasons = "; ".join(
                f"{task}: {reading.problem if self.task else shorten(reading.problem, 200)}"
                for task, reading in sorted(failed.items(), key=lambda each: -_line_of(each[1].problem))
                if reading.evidence == most
            )
            raise InputError(f"no format of {', '.join(tasks)} fits ({reasons})", where=self.path)
        fits = [each for each in fits if each.evidence >= POSSIBLE] or fits
        if self.json:
            also = [{"task": each.task, "dataset_reader": each.dataset_reader} for each in fits[1:]]
            print(json.dumps({**asdict(fits[0]), "also": also}, ensure_ascii=False, indent=2))
        else:
            print("\n".join([*description(self.path, fits[0]), *self._commands(fits)]))

    def _commands(self, fits: list[Inspection]) -> list[str]:
        """Returns the block of the config, other possibilities, and the command that reads data."""
        first, *others = fits
        block = json.dumps(first.dataset_reader, ensure_ascii=False, indent=2)
        also = [each.command or json.dumps(each.dataset_reader, ensure_ascii=False) for each in others]
        return [
            *([] if first.command else ["", f"dataset_reader: {block}"]),
            *(f"also possible: {each}" for each in also),
            "",
            first.command or self._use(first),
        ]

    def _use(self, inspection: Inspection) -> str:
        """Returns the command that trains on data or, without labels, predicts."""
        block = inspection.dataset_reader
        keys = {f"dataset_reader.{key}": value for key, value in block.items() if key != "type"}
        if not inspection.labels:
            words = ["allennlp", "predict", f"elmo:{inspection.task}", self.path, "--use-dataset-reader"]
            return shlex.join(words + (["--overrides", json.dumps(keys, ensure_ascii=False)] if keys else []))
        if verb := _VERBS.get(inspection.task):
            words = ["allennlp", "elmo", verb, self.path, "-o", f"runs/{inspection.task}"]
            words += ["--label", self.label] if self.label else []
            words += ["--text", *self.text] if self.text else []
            return shlex.join(words + ["--skip-bad"] * ("skip_bad" in block))
        return _train_command(CONFIGS[inspection.task], inspection.task, self.path, keys)


def _line_of(problem: str) -> int:
    """Returns the line of an error: the reader that comes furthest is the likeliest one."""
    line = re.search(r", line (\d+): ", problem)
    return int(line[1]) if line else 0


class Readings(NamedTuple):
    """How a task reads data: in each way that works, the likeliest first; or why it does not."""

    inspections: list[Inspection]
    evidence: float
    """The evidence that the data are the task's, see `data.formats`."""
    problem: str = ""


def inspect(task: str, path: str, sample: FileSample) -> Readings:
    """Reads data as a task does, once with each of the candidates of `TaskReader.find`."""
    name = "elmo_classifier" if task == "classification" else f"elmo_{task}"
    cls = DatasetReader.by_name(name)
    assert issubclass(cls, TaskReader)
    with _logged():
        evidence, candidates, problem_of_data = cls.find(sample)
    if problem_of_data is not None:
        return Readings([], evidence, str(problem_of_data))
    inspections: list[Inspection] = []
    problems: list[str] = []
    # Where nothing is found, the reader itself says why; a classifier needs its classes.
    for keys in candidates or ([] if task == "classification" else [{}]):
        block = {"type": name, **keys}
        if sample.encoding != "utf-8":
            block["encoding"] = sample.encoding
        try:
            inspections.append(read_with(task, path, block, sample, evidence))
        except (ConfigurationError, ValueError, OSError) as error:
            problems.append(str(error))
    inspections.sort(key=lambda each: -sum(each.labels.values()))
    inspections = [each for each in inspections if each.labels or not inspections[0].labels]
    problem = "" if inspections else (problems or [f"{path}: no column has two classes or more"])[0]
    return Readings(inspections, evidence, problem)


def read_with(
    task: str, path: str, block: dict[str, Any], sample: FileSample, evidence: float = 0.0
) -> Inspection:
    """
    Reads data with the reader of a block. Bad records are left out, and told as warnings; if most are bad,
    the first error is raised.
    """
    cls = DatasetReader.by_name(block["type"])
    assert issubclass(cls, TaskReader)
    keys = {name: value for name, value in block.items() if name != "type"}
    reader = cls(**keys | {"skip_bad": True}, **cls.whole_files)
    labels: Counter[str] = Counter()
    sizes: list[int] = []
    texts: list[TextField] = []
    with _logged() as log:
        try:
            for instance in reader.read(path):
                before, texts = texts, texts_of([instance])
                shared = reader.record_field
                if not (sizes and shared and any(instance[shared] is text for text in before)):
                    sizes.append(0)
                sizes[-1] += sum(len(text) for text in texts if not any(text is other for other in before))
                labels.update(reader.labels_of(instance))
        except InputError:
            if sizes or not reader.bad_records:
                raise
    if bad := reader.bad_records:
        if len(bad) > len(sizes) or not labels:
            raise bad[0]
        block = block | {"skip_bad": True}
        if len(bad) > _FEW * len(sizes):
            evidence *= 1 - len(bad) / (len(bad) + len(sizes))
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
        ],
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


def _odd_labels(task: str, labels: Counter[str]) -> Iterator[str]:
    """Yields what is odd in labels: some that differ in case or blanks alone, and classes of one record."""
    by_name: dict[str, list[str]] = {}
    for label in labels:
        by_name.setdefault(" ".join(label.casefold().split()), []).append(label)
    for same in by_name.values():
        if len(same) > 1:
            yield f"the labels {' and '.join(map(repr, same))} differ in their spelling alone"
    once = [label for label, count in labels.items() if count == 1]
    if task == "classification" and once and max(labels.values()) >= _RECURS:
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


def data_of_probes(path: str, sample: FileSample, *, least: float) -> Iterator[Inspection]:
    """Yields the first of the probes of that evidence that reads data, or that they are a text for a biLM."""
    # One sentence alone has no empty lines; `_` is an empty cell of CoNLL-U and its like.
    has_sentences = sample.has_blank_lines or any("_" in line.split("\t") for line in sample.lines)
    has_entities = any(re.search(r"\s[BI]-\w+$", line, re.IGNORECASE) for line in sample.lines)
    is_json = bool(sample.lines) and sample.lines[0].lstrip().startswith(("{", "["))
    cells = (cell for line in sample.lines for cell in line.split("\t"))
    # Contexts have the word in <b>, as in SCWS.
    has_texts = names_texts(sample) or any(cell.count(" ") > 4 and "<b>" not in cell for cell in cells)
    for task, read, command, evidence in _PROBES:
        is_of_words = task in ("similarity", "analogies")
        if evidence < least or (task == "parts of speech" and (has_entities or not has_sentences)):
            continue
        if is_of_words and (has_sentences or is_json or has_texts):
            continue
        try:
            records = read(path)
        except (ConfigurationError, ValueError, OSError):
            continue
        if task == "analogies" and not _are_pairs(sample.lines):
            continue
        if task != "similarity" or _are_words(records):
            yield Inspection(
                task=task,
                format=task,
                encoding=sample.encoding,
                records=len(records),
                tokens=0,
                command=command.format(path=shlex.quote(path)),
                evidence=evidence,
            )
            return
    sizes = [len(line.split()) for line in sample.lines]
    is_table = sample.files[0].suffix == ".csv" or has_header(sample)
    is_text = not is_table and not any(
        "\t" in line or line.startswith(("{", "[", "(", "<", "#")) for line in sample.lines
    )
    if is_text and (len(set(sizes)) > 2 or (len(sizes) == 1 and sizes[0] > 2)):
        sentences = tokens = 0
        for file in sample.files:
            for _, line in nonblank_lines(file, sample.encoding):
                sentences += 1
                tokens += len(line.split())
        yield Inspection(
            task="text for a biLM",
            format="text for a biLM",
            encoding=sample.encoding,
            records=sentences,
            tokens=tokens,
            command=_train_command("bilm", "bilm", path, {}),
            evidence=_TEXT,
        )


def _are_pairs(lines: Sequence[str]) -> bool:
    """Tells whether lines of two words have mostly different second words, unlike those with a class."""
    rows = [re.split(r"[\s,]+", line.strip()) for line in lines]
    are_different = any(len(row) > 2 for row in rows) or 2 * len({row[-1] for row in rows}) > len(rows)
    return are_different and not any(row[0].isdecimal() for row in rows)


def _are_words(pairs: Sequence[Any]) -> bool:
    """Tells whether most pairs are different, and of words, not of sentences."""
    longest = max(word.count(" ") for pair in pairs for word in pair[:2])
    return longest <= _MOST_BLANKS and 2 * len({pair[:2] for pair in pairs}) >= len(pairs)


def description(path: str, inspection: Inspection) -> list[str]:
    """Returns lines that tell what the data are."""
    if inspection.command:
        tokens = f", {inspection.tokens:,} tokens" if inspection.tokens else ""
        return [
            f"{path}: {inspection.task}, {inspection.encoding}",
            f"  {inspection.records:,} records{tokens}",
        ]
    labels = list(inspection.labels.items())
    shown = ", ".join(f"{label} {count:,}" for label, count in labels[:_SHOWN])
    columns = [f"{role}: {', '.join(names)}" for role, names in inspection.columns.items() if names]
    tokenizer = inspection.dataset_reader.get("tokenizer")
    # The reader's own counts are of files, and say again what is above.
    notes = [note for note in inspection.notes if inspection.task != "classification" or "left out" in note]
    by_tokenizer = f" by the tokenizer {tokenizer}" if tokenizer else ""
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return [
        f"{path}: {inspection.task}, format {inspection.format}, {inspection.encoding}",
        f"  {inspection.records:,} records, {inspection.tokens:,} tokens{by_tokenizer}",
        *([f"  {'; '.join(columns)}"] if columns else []),
        f"  labels: {shown}{more}" if labels else "  no labels: it serves predictions",
        f"  longest: record {inspection.longest_record:,} with {inspection.longest:,} tokens",
        *(f"  {note}" for note in notes[-_NOTES:]),
        *(f"  odd: {warning}" for warning in inspection.warnings),
    ]


def _train_command(config: str, name: str, path: str, keys: dict[str, Any]) -> str:
    """Returns a command that can be pasted: the data to train on also choose the epoch."""
    keys = keys | {"train_data_path": path, "validation_data_path": path}
    overrides = shlex.quote(json.dumps(keys, ensure_ascii=False))
    return f"allennlp train training_configs/{config}.jsonnet -s runs/{name} --overrides {overrides}"
