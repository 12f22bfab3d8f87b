"""
The shards of a run, its plan and its notes: how a run that was stopped is resumed, whatever it computes and
wherever it writes.

An input is cut into shards, each read by itself: lines of a text, or rows of a Parquet file. The shards
depend on the input and their size alone. Each has a hash of its content, so that a run that is resumed
notices an input that has changed.

A run works in a folder: OUT itself if that is a folder of parts, else OUT.partial. `prepare_folder` removes
an earlier run that is not resumed. `open_run` writes the plan, which has the settings, or compares the plan
of a run that was stopped with its own. Each shard that is done leaves a note with hash and counts,
written when its content is on the disk. A run that is resumed does the shards that have no such note.
"""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from io import BufferedReader
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from elmo_tasks.common.errors import ElmoError, errors_as
from elmo_tasks.common.files import UNREADABLE, decompressed, json_value, not_utf8
from elmo_tasks.jobs.locations import MARK, WORK, Folder, byte_size, exists, open_source

if TYPE_CHECKING:
    from pyarrow import Table


MIN_BYTES, MAX_BYTES = 1 << 14, 1 << 20
"""The default size of a shard is between these: some 3,000 and 180,000 words of English."""
SHARDS_OF_A_WORKER = 16
TEXT_COLUMNS = ("tokens", "text", "sentence")
_UNREADABLE = (*UNREADABLE, ValueError, NotImplementedError)  # the last two from pyarrow
_errors_of = partial(errors_as, ElmoError, "cannot read the file", _UNREADABLE)
_ROWS = 1024
"""The rows of a Parquet file that become Python objects at a time."""

Content = Any
"""A line in bytes; or a row of a Parquet file: the value in one column, or a dictionary of all columns."""


class Shard(NamedTuple):
    """
    The part of the input that a worker does without a break.

    # Parameters

    start : the first byte in the unpacked text; 0 in a Parquet file.
    line : the first line, or row, in its source, from 1.
    """

    number: int
    source: str
    start: int
    line: int
    lines: int
    digest: str

    @property
    def name(self) -> str:
        return f"part-{self.number:06}"


class Reading(NamedTuple):
    """
    How an input is read.

    # Parameters

    folder : the folder at which relative paths start.
    column : the column of Parquet files that is read, by default the first of `TEXT_COLUMNS` that is there.
    objects : the lines are JSON: blank ones do not count, and a row of Parquet is an object of all its
        columns.
    multiple : the lines of a shard that count are a multiple of this, unless its source ends: batches are
        not cut.
    check_utf8 : a byte that is not UTF-8 is an error when the shards are made.
    """

    folder: str
    column: str | None = None
    objects: bool = False
    multiple: int = 1
    check_utf8: bool = False


def default_shard_bytes(sources: Sequence[str], workers: int, folder: str) -> int:
    """Returns a size that gives every worker several shards. Relative paths start at `folder`."""
    total = sum(byte_size(source, folder) for source in sources)
    return min(max(total // (SHARDS_OF_A_WORKER * workers), MIN_BYTES), MAX_BYTES)


def make_shards(sources: Sequence[str], size: int, reading: Reading) -> list[Shard]:
    """Returns the shards of all sources in their order: the lines that reach `size` bytes."""
    shards: list[Shard] = []
    for source in sources:
        start, line = 0, 1
        with _errors_of(where=source), open_source(source, reading.folder) as file:
            for block in _blocks(_records_of(file, source, reading)(start, line), size, reading):
                if reading.check_utf8:
                    _check_utf8(source, start, line, block)
                shards.append(Shard(len(shards), source, start, line, len(block), _digest(block)))
                start += sum(len(record.packed) for record in block)
                line += len(block)
    return shards


class ShardReader:
    """Reads shards. A source stays open, so that a packed file is unpacked once in order."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._source: str | None = None
        self._records: Callable[[int, int], Iterator[_Record]]

    def lines(self, shard: Shard) -> list[Content]:
        """Returns the lines; `ElmoError` if the source cannot be read, or has changed."""
        with _errors_of(where=shard.source):
            if self._source != shard.source:
                file = open_source(shard.source, self._reading.folder)
                self._records = _records_of(file, shard.source, self._reading)
                self._source = shard.source
            block = list(islice(self._records(shard.start, shard.line), shard.lines))
        if _digest(block) != shard.digest:
            raise ElmoError(
                "the text has changed since the run began",
                where=shard.source,
                line=shard.line,
                remedy="use --force to start over",
            )
        return [record.content for record in block]


class _Record(NamedTuple):
    """A line or a row, and the bytes that show whether it has changed."""

    content: Content
    packed: bytes


def _blocks(records: Iterable[_Record], size: int, reading: Reading) -> Iterator[list[_Record]]:
    block: list[_Record] = []
    length = counted = 0
    for record in records:
        block.append(record)
        length += len(record.packed)
        counted += _counts(record, reading)
        if length >= size and counted % reading.multiple == 0:
            yield block
            block, length, counted = [], 0, 0
    if block:
        yield block


def _counts(record: _Record, reading: Reading) -> bool:
    if not reading.objects or not isinstance(record.content, bytes):
        return True
    return bool(record.content.decode("utf-8", "surrogateescape").strip())


def _check_utf8(source: str, start: int, line: int, block: list[_Record]) -> None:
    text = b"".join(record.packed for record in block)
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        line += text.count(b"\n", 0, error.start)
        raise ElmoError(not_utf8(error, start), where=source, line=line) from error


def _digest(block: list[_Record]) -> str:
    return blake2b(b"".join(record.packed for record in block), digest_size=16).hexdigest()


def _records_of(file: BufferedReader, name: str, reading: Reading) -> Callable[[int, int], Iterator[_Record]]:
    """Returns how records are read from a start on. The first bytes tell the kind of a file, not its name."""
    if file.peek(4).startswith(b"PAR1"):
        return _ParquetRows(file, name, reading).records
    return partial(_lines, decompressed(file))


def _lines(file: BinaryIO, start: int, line: int) -> Iterator[_Record]:
    """Yields the lines from the byte `start` on, where line `line` begins."""
    file.seek(start)
    for packed in file:
        content = packed.removeprefix(BOM_UTF8) if line == 1 else packed
        yield _Record(content.removesuffix(b"\n"), packed)
        line += 1


class _ParquetRows:
    def __init__(self, file: BufferedReader, name: str, reading: Reading) -> None:
        remedy = "install it: make install EXTRAS='ray'"
        with errors_as(ElmoError, "Parquet files need pyarrow", ImportError, where=name, remedy=remedy):
            from pyarrow.parquet import ParquetFile
        self._name = name
        self._file = ParquetFile(file)
        self._reading = reading
        self._group: tuple[int, Table] | None = None

    def records(self, start: int, line: int) -> Iterator[_Record]:
        """Yields the rows from row `line` on, from 1."""
        skip = line - 1
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            if skip < rows:
                for batch in self._read_group(group).slice(skip).to_batches(_ROWS):
                    content = batch if self._reading.objects else batch.column(0)
                    for row in content.to_pylist():
                        yield _Record(row, json.dumps(row, default=str).encode())
            skip = max(skip - rows, 0)

    def _read_group(self, group: int) -> "Table":
        """Returns a row group. The last one is kept, since the next shard is likely to be in it."""
        if self._group is None or self._group[0] != group:
            columns = None if self._reading.objects else [self._column()]
            self._group = group, self._file.read_row_group(group, columns=columns)
        return self._group[1]

    def _column(self) -> str:
        names = self._file.schema_arrow.names
        wanted = [self._reading.column] if self._reading.column else TEXT_COLUMNS
        for name in wanted:
            if name in names:
                return name
        raise ElmoError(
            f"none of the columns {', '.join(names)} is named {' or '.join(wanted)}",
            where=self._name,
            remedy="name a column by --column",
        )


PLAN = "_plan.json"
"""The plan of a run. A later run needs the files in a folder that has a plan."""
MANIFEST = "_manifest.json"
"""The mark of a complete folder of parts. Readers of such folders ignore names that begin with `_`."""
VERSION = 4
"""The version of these files, and of how an input is put into shards, windows and batches."""
_NOTE = re.compile(r"_part-(\d{6,})\.json")
_OURS = re.compile(r"__?(part-\d{6,}|plan|manifest|rejected|result)\..*|part-\d{6,}\.(jsonl|parquet|vectors)")
"""The names of a run's files."""

Settings = dict[str, str | int | None]
"""The settings that a run must share with the one it resumes. The key of an argument is its name, `--...`."""
Outcome = dict[str, Any]
"""The result of a shard: its number and counts, or the `error` that ended it."""


def prepare_folder(folder: Folder, output: str | None = None, *, resume: bool, force: bool) -> bool:
    """
    Prepares the folder of a run: removes what an earlier run has left there, unless that is resumed. Returns
    false, and removes nothing, if the run to resume is complete. `output` is the file to write, if it is not
    the folder itself. Links and other files in the folder are an `ElmoError`; so are an output and an
    unfinished run without `resume` or `force`.
    """
    names = folder.names() - {MARK, WORK}
    for name in sorted(names):
        if not _OURS.fullmatch(name) or folder.is_link(name):
            raise ElmoError(
                f"{folder.location} holds {name}, which this command did not write",
                remedy="remove it, or name another OUT",
            )
    complete = MANIFEST in names if output is None else exists(output)
    stopped = PLAN in names and not (output is None and complete)
    if output is not None and not stopped and names:
        remove_run(folder)  # of a run that was killed when it was complete
    if resume and (stopped or complete):
        return stopped
    if not force and complete and not stopped:
        raise ElmoError(f"{output or folder.location} exists", remedy="use --force to overwrite it")
    if not force and (stopped or (output is None and names)):
        raise ElmoError(
            f"{folder.location} holds an unfinished run",
            remedy=f"use {'--resume to continue it, or ' if stopped else ''}--force to start over",
        )
    if names:
        remove_run(folder)
    return True


def remove_run(folder: Folder) -> None:
    """Removes the files of a run, and no others."""
    names = filter(_OURS.fullmatch, folder.names())
    # A kill must not leave a manifest or a plan without the parts.
    folder.remove([MANIFEST, PLAN, *sorted(set(names) - {MANIFEST, PLAN})])


@dataclass(kw_only=True)
class Run:
    """A run that `open_run` has opened."""

    folder: Folder
    shards: list[Shard]
    done: dict[int, Outcome] = field(default_factory=dict)
    """The outcomes of the shards that are done, by their numbers."""

    def remaining(self) -> list[Shard]:
        return [shard for shard in self.shards if shard.number not in self.done]

    def total(self, count: str) -> int:
        return sum(outcome[count] for outcome in self.done.values())

    @contextmanager
    def noting_how_to_resume(self) -> Iterator[None]:
        """Adds to an exception that leaves the context how much is done, and how the run is resumed."""
        try:
            yield
        except BaseException as error:
            done = sum(self.shards[number].lines for number in self.done)
            error.add_note(
                f"{done:,} of {sum(shard.lines for shard in self.shards):,} lines are done; the same "
                "command with --resume continues from there"
            )
            raise


def open_run(
    folder: Folder, sources: Sequence[str], settings: Settings, *, reading: Reading, shard_bytes: int
) -> Run:
    """
    Opens the run whose plan is in the folder, or a new one. Shards whose input has changed are done again. A
    run with other settings is an `ElmoError`.
    """
    names = folder.names()
    if PLAN not in names:
        shards = make_shards(sources, shard_bytes, reading)
        folder.create()
        write_json(folder, PLAN, {"version": VERSION, "settings": settings, "shard_bytes": shard_bytes})
        return Run(folder=folder, shards=shards)
    plan = read_json(folder, PLAN)
    _check_settings(folder, plan, settings)
    shards = make_shards(sources, plan["shard_bytes"], reading)
    # What workers that were killed had begun
    folder.remove(name for name in names if name.startswith(("_part-", "__")) and not _NOTE.fullmatch(name))
    done = {}
    for name in filter(_NOTE.fullmatch, names):
        note = read_json(folder, name)
        shard = Shard(*note["shard"])
        if shards[shard.number : shard.number + 1] == [shard]:
            done[shard.number] = note["outcome"]
    return Run(folder=folder, shards=shards, done=done)


def note_name(number: int) -> str:
    return f"_part-{number:06}.json"


def read_json(folder: Folder, name: str) -> dict[str, Any]:
    try:
        return dict(json_value(folder.read(name).decode("utf-8")))
    except (TypeError, ValueError) as error:
        raise _cannot_be_resumed(folder, f"{name} is damaged") from error


def write_json(folder: Folder, name: str, content: dict[str, Any]) -> None:
    with folder.writing(name) as file:
        file.write(json.dumps(content).encode() + b"\n")


def _check_settings(folder: Folder, plan: dict[str, Any], settings: Settings) -> None:
    if plan.get("version") != VERSION:
        raise _cannot_be_resumed(folder, "it was written by another version")
    planned = plan["settings"]
    differences = [
        f"{key} (was {planned.get(key) or 'not given'}, is {settings.get(key) or 'not given'})"
        if key.startswith("--")
        else key
        for key in settings  # a plan of an earlier version may have others
        if planned.get(key) != settings.get(key)
    ]
    if differences:
        raise _cannot_be_resumed(folder, f"this differs: {', '.join(differences)}")


def _cannot_be_resumed(folder: Folder, reason: str) -> ElmoError:
    return ElmoError(f"{folder.location} cannot be resumed, {reason}", remedy="use --force to start over")
