"""
The shards of a run, its plan and its notes: how a run that was stopped is resumed, whatever it computes and
wherever it writes.

An input is cut into shards, each read by itself: lines of a text, or rows of a Parquet file. The shards
depend on the input and their size alone. Each has a hash of its content, so that a run that is resumed
notices an input that has changed.

A run works in a folder: OUT itself if that is a folder of parts, else OUT.partial. `prepare_folder` removes
an earlier run that is not resumed. `open_run` compares the settings in the plan of a run that was stopped
with its own; a new run writes a plan. Each shard that is done leaves a note with hash and counts, written
when its content is on the disk. A run that is resumed does the shards that have no such note.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from io import BufferedReader
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from elmo_tasks.common.errors import ElmoError, errors_as
from elmo_tasks.common.files import UNREADABLE, json_value, not_utf8
from elmo_tasks.common.lines import InputLines
from elmo_tasks.jobs.locations import MARK, WORK, Folder, exists, input_size, open_source

if TYPE_CHECKING:
    from pyarrow import Table


MIN_BYTES, MAX_BYTES = 1 << 14, 1 << 20
"""The default size of a shard is between these: some 3,000 and 180,000 words of English."""
PIPE_BYTES = 1 << 17
"""The default size of a shard of a pipe."""
SHARDS_OF_A_WORKER = 16
TEXT_COLUMNS = ("tokens", "text", "sentence")
_UNREADABLE = (*UNREADABLE, ValueError, NotImplementedError)  # the last two from pyarrow
_errors_of = partial(errors_as, ElmoError, "cannot read the file", _UNREADABLE)
_ROWS = 1024
"""The rows of a Parquet file that become Python objects at a time."""

Content = Any
"""
A line in bytes; or a row of a Parquet file: the value in one column, or a dictionary of all columns. The last
of `objects` may be the error of reading.
"""


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
    objects : the lines are JSON: blank ones do not count, a row of Parquet is an object of all its columns,
        and an error of reading comes after the lines before it.
    multiple : the lines of a shard that count are a multiple of this, unless its source ends: batches are
        not cut.
    check_utf8 : a byte that is not UTF-8 is an error when the shards are made.
    """

    folder: str
    column: str | None = None
    objects: bool = False
    multiple: int = 1
    check_utf8: bool = False


class Piece(NamedTuple):
    """A shard with its content, and how far it moves the bar: its bytes, packed, or the lines of a pipe."""

    shard: Shard
    contents: list[Content]
    steps: int


def cut(sources: Iterable[str], size: int, reading: Reading) -> Iterator[Piece]:
    """
    Yields all sources in their order, read once, in shards: the lines that reach `size` bytes. `ElmoError`: a
    source cannot be read.
    """
    number = 0
    for source in sources:
        with _errors_of(where=source), open_source(source, reading.folder) as file:
            records = _records_of(file, source, reading)
            start, line, position = 0, 1, 0
            for contents in _blocks(records, size, reading):
                shard = Shard(number, records.name, start, line, len(contents), _digest(contents))
                if reading.check_utf8:
                    _check_utf8(shard, contents)
                yield Piece(shard, contents, records.position - position)
                start, line, position = records.offset, records.number + 1, records.position
                number += 1


class ShardReader:
    """Reads shards. A source stays open, so that a packed file is unpacked once in order."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._records: _Records | None = None

    def lines(self, shard: Shard) -> list[Content]:
        """Returns the lines; `ElmoError` if the source cannot be read, or has changed."""
        with _errors_of(where=shard.source):
            if self._records is None or self._records.name != shard.source:
                file = open_source(shard.source, self._reading.folder)
                self._records = _records_of(file, shard.source, self._reading)
            self._records.seek(shard.start, shard.line - 1)
            contents = list(islice(_contents(self._records, self._reading), shard.lines))
        if _digest(contents) != shard.digest:
            what, remedy = "the text has changed since the run began", "use --force to start over"
            raise ElmoError(what, where=shard.source, line=shard.line, remedy=remedy)
        return contents


def _blocks(records: "_Records", size: int, reading: Reading) -> Iterator[list[Content]]:
    block: list[Content] = []
    start = counted = 0
    for content in _contents(records, reading):
        block.append(content)
        counted += not isinstance(content, bytes) or bool(content.decode("utf-8", "replace").strip())
        if records.offset - start >= size and counted % reading.multiple == 0:
            yield block
            block, start, counted = [], records.offset, 0
    if block:
        yield block


def _contents(records: "_Records", reading: Reading) -> Iterator[Content]:
    try:
        yield from records
    except _UNREADABLE as error:
        if not reading.objects:
            raise
        yield ElmoError(str(error))


def _check_utf8(shard: Shard, contents: list[Content]) -> None:
    text = b"\n".join(map(_packed, contents))
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = shard.line + text.count(b"\n", 0, error.start)
        raise ElmoError(not_utf8(error, shard.start), where=shard.source, line=line) from error


def _packed(content: Content) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content, default=str).encode()


def _digest(contents: list[Content]) -> str:
    """Returns the hash by which a run that is resumed notices that the input has changed."""
    return blake2b(b"\n".join(map(_packed, contents)), digest_size=16).hexdigest()


def _records_of(file: BufferedReader, name: str, reading: Reading) -> "_Records":
    """Returns the lines or rows of a file. Its first bytes tell its kind, not its name."""
    if file.peek(4).startswith(b"PAR1"):
        return _ParquetRows(file, name, reading)
    return InputLines(file, name)


class _ParquetRows:
    """The rows of a Parquet file, as `InputLines` has the lines of a text. Their offset is that of JSON."""

    def __init__(self, file: BufferedReader, name: str, reading: Reading) -> None:
        remedy = "install it: make install EXTRAS='ray'"
        with errors_as(ElmoError, "Parquet files need pyarrow", ImportError, where=name, remedy=remedy):
            from pyarrow.parquet import ParquetFile
        self.name = name
        self.number = self.offset = self.position = 0
        self._size = file.seek(0, os.SEEK_END)
        self._file = ParquetFile(file)
        self._reading = reading
        self._group: tuple[int, Table] | None = None

    def seek(self, offset: int, number: int) -> None:
        self.offset, self.number = offset, number

    def __iter__(self) -> Iterator[Content]:
        """Yields the rows after row `number`."""
        skip = self.number
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            if skip < rows:
                for batch in self._read_group(group).slice(skip).to_batches(_ROWS):
                    content = batch if self._reading.objects else batch.column(0)
                    for row in content.to_pylist():
                        self.number += 1
                        self.offset += len(_packed(row))
                        self.position = self._size * self.number // self._file.metadata.num_rows
                        yield row
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
            where=self.name,
            remedy="name a column by --column",
        )


_Records = InputLines | _ParquetRows

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
    plan: dict[str, Any]
    pieces: Iterator[Piece]
    """The input, which is read once."""
    size: int | None
    """The bytes of the input; `None` for a pipe."""
    noted: dict[int, tuple[Shard, Outcome]] = field(default_factory=dict)
    """The shards that an earlier process has done, and their outcomes, by their numbers."""
    shards: list[Shard] = field(default_factory=list)
    """The shards that were read so far."""
    done: dict[int, Outcome] = field(default_factory=dict)
    """The outcomes of those that are done, by their numbers."""
    position: int = 0
    """The sum of the `steps` of those that are done."""
    _steps: list[int] = field(default_factory=list)

    def write_plan(self) -> None:
        self.folder.create()
        write_json(self.folder, PLAN, self.plan)

    def remaining(self) -> Iterator[Piece]:
        """Yields the pieces that are not done. If the input of a shard has changed, it is done again."""
        for piece in self.pieces:
            self.shards.append(piece.shard)
            self._steps.append(piece.steps)
            shard, outcome = self.noted.get(piece.shard.number, (None, {}))
            if shard == piece.shard:
                self.add(outcome)
            else:
                yield piece

    def add(self, outcome: Outcome) -> None:
        """Counts a shard as done."""
        self.done[outcome["number"]] = outcome
        self.position += self._steps[outcome["number"]]

    def total(self, count: str) -> int:
        return sum(outcome[count] for outcome in self.done.values())

    @contextmanager
    def noting_how_to_resume(self) -> Iterator[None]:
        """Adds to an exception that leaves the context how much is done, and how the run is resumed."""
        try:
            yield
        except BaseException as error:
            done = sum(self.shards[number].lines for number in self.done)
            error.add_note(f"{done:,} lines are done; the same command with --resume continues from there")
            raise


def open_run(
    folder: Folder,
    sources: Sequence[str],
    settings: Settings,
    *,
    reading: Reading,
    shard_bytes: int | None = None,
    workers: int = 1,
) -> Run:
    """
    Opens the run whose plan is in the folder, or a new one, whose shards have `shard_bytes` or, by default, a
    size that gives every worker several. A run with other settings is an `ElmoError`.
    """
    names = folder.names()
    size = input_size(sources, reading.folder)
    default = PIPE_BYTES if size is None else size // (SHARDS_OF_A_WORKER * workers)
    shard_bytes = shard_bytes or min(max(default, MIN_BYTES), MAX_BYTES)
    plan: dict[str, Any] = {"version": VERSION, "settings": settings, "shard_bytes": shard_bytes}
    noted = {}
    if PLAN in names:
        plan = read_json(folder, PLAN)
        _check_settings(folder, plan, settings)
        notes = set(filter(_NOTE.fullmatch, names))
        # What workers that were killed had begun
        folder.remove(name for name in names - notes if name.startswith(("_part-", "__")))
        for note in (read_json(folder, name) for name in notes):
            noted[note["outcome"]["number"]] = Shard(*note["shard"]), note["outcome"]
    pieces = cut(sources, plan["shard_bytes"], reading)
    return Run(folder=folder, plan=plan, pieces=pieces, size=size, noted=noted)


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
