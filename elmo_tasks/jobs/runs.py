"""
The shards of a run, its plan and its notes: how a run that was stopped is resumed, whatever it computes and
wherever it writes.

An input is cut into shards, each read by itself: bytes of a text, or rows of a Parquet file. The shards
depend on the input and their size alone. Each has a hash of its content, so that a run that is resumed finds
out whether the input is still the same.

A run works in a folder: OUT itself if that is a folder of parts, else OUT.partial. `must_run` decides by the
files there whether there is something to do. `open_run` writes the plan, with the settings and the shards, or
compares the plan of a run that was stopped with its own. Each shard that is done leaves a note with its
counts, written when its content is on the disk. A run that is resumed does the shards that have no note.
"""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BufferedReader
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import UNREADABLE, unpacked
from elmo_tasks.common.progress import progress
from elmo_tasks.jobs.locations import MARK, Folder, byte_size, exists, open_source

if TYPE_CHECKING:
    from pyarrow import Table


MIN_BYTES, MAX_BYTES = 1 << 14, 1 << 20
"""The default size of a shard is between these: some 3,000 and 180,000 words of English."""
SHARDS_OF_A_WORKER = 16
MAX_LINE = 1 << 26
TEXT_COLUMNS = ("tokens", "text", "sentence")

Content = Any
"""A line in bytes; or a row of a Parquet file: the value in one column, or a dictionary of all columns."""


class Shard(NamedTuple):
    """
    The part of the input that a worker does at once.

    # Parameters

    start : the first byte in the unpacked text, or the row group.
    skip : the rows of the row group before this shard.
    line : the first line, or row, in its source, from 1.
    before : the lines of all shards before this one, without blank ones where these do not count.
    size : in bytes.
    """

    number: int
    source: str
    start: int
    skip: int
    line: int
    lines: int
    before: int
    size: int
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
    multiple : a shard has a multiple of so many lines that count, unless its source ends: batches are not
        cut.
    check_utf8 : a byte that is not UTF-8 is an error when the shards are made.
    skip_bom : a text may begin with a byte order mark, which is left out.
    """

    folder: str
    column: str | None = None
    objects: bool = False
    multiple: int = 1
    check_utf8: bool = True
    skip_bom: bool = True


def default_shard_bytes(sources: Sequence[str], workers: int, folder: str) -> int:
    """Returns a size that gives every worker several shards. Relative paths start at `folder`."""
    total = sum(byte_size(source, folder) for source in sources)
    return min(max(total // (SHARDS_OF_A_WORKER * workers), MIN_BYTES), MAX_BYTES)


def make_shards(sources: Sequence[str], size: int, reading: Reading) -> list[Shard]:
    """
    Returns the shards of all sources in their order, each of `size` bytes and the rest of its last line.

    # Raises
    `ElmoError`, with the source and where possible the line: a byte that is not UTF-8, with `check_utf8`; a
    line of more than `MAX_LINE` bytes; a file that cannot be read, or has no such column.
    """
    shards: list[Shard] = []
    before = 0
    for source in sources:
        with _errors_of(source), open_source(source, reading.folder) as file:
            for shard, counted in _opened(file, source, reading).shards(size):
                shards.append(shard._replace(number=len(shards), before=before))
                before += counted
    return shards


class ShardReader:
    """Reads shards. A source stays open, so that a packed file is unpacked once in order."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._source: _Text | _Table | None = None

    def lines(self, shard: Shard) -> list[Content]:
        """Returns the lines; `ElmoError` if the source cannot be read, or has changed."""
        with _errors_of(shard.source):
            if self._source is None or self._source.name != shard.source:
                file = open_source(shard.source, self._reading.folder)
                self._source = _opened(file, shard.source, self._reading)
            lines, digest = self._source.lines(shard)
        if digest != shard.digest:
            found = "a text that has changed since the run began"
            raise ElmoError.at(shard.source, shard.line, found=found, expected="the same text")
        return lines


def _opened(file: BufferedReader, name: str, reading: Reading) -> "_Text | _Table":
    """Tells the kind of a file by its first bytes, whatever its name."""
    if file.peek(4).startswith(b"PAR1"):
        return _Table(file, name, reading)
    return _Text(unpacked(file), name, reading)


class _Text:
    def __init__(self, file: BinaryIO, name: str, reading: Reading) -> None:
        self.name = name
        self._file = file
        self._reading = reading

    def shards(self, size: int) -> Iterator[tuple[Shard, int]]:
        """Yields the shards, without their numbers, and how many lines of each count."""
        start, line = 0, 1
        while block := self._file.read(size):
            if not block.endswith(b"\n"):
                block += self._rest_of_line(line)
            lines = block.count(b"\n") + (not block.endswith(b"\n"))
            counted = lines
            if self._reading.objects:
                counted = sum(map(_counts, self._split(block, line)))
                while counted % self._reading.multiple and (next_line := self._rest_of_line(line)):
                    block += next_line
                    lines += 1
                    counted += _counts(next_line)
            if self._reading.check_utf8:
                self._check_utf8(block, start, line)
            yield Shard(0, self.name, start, 0, line, lines, 0, len(block), _digest(block)), counted
            start, line = start + len(block), line + lines

    def lines(self, shard: Shard) -> tuple[list[Content], str]:
        """Returns the lines and their hash."""
        self._file.seek(shard.start)
        block = self._file.read(shard.size)
        return self._split(block, shard.line), _digest(block)

    def _split(self, block: bytes, line: int) -> list[bytes]:
        text = block.removeprefix(BOM_UTF8) if self._reading.skip_bom and line == 1 else block
        return text.removesuffix(b"\n").split(b"\n")

    def _rest_of_line(self, line: int) -> bytes:
        rest = self._file.readline(MAX_LINE)
        if len(rest) == MAX_LINE:
            found, expected = f"a line of more than {MAX_LINE:,} bytes, there or soon after", "shorter lines"
            raise ElmoError.at(self.name, line, found=found, expected=expected)
        return rest

    def _check_utf8(self, block: bytes, start: int, line: int) -> None:
        try:
            block.decode("utf-8")
        except UnicodeDecodeError as error:
            found = f"the byte 0x{block[error.start]:02x} at offset {start + error.start}"
            line += block.count(b"\n", 0, error.start)
            raise ElmoError.at(self.name, line, found=found, expected="UTF-8") from error


class _Table:
    """A Parquet file. A shard is in one of its row groups."""

    def __init__(self, file: BufferedReader, name: str, reading: Reading) -> None:
        try:
            from pyarrow.parquet import ParquetFile
        except ModuleNotFoundError as error:
            expected = "lines, or pyarrow for it: make install EXTRAS='ray'"
            raise ElmoError.at(name, found="a Parquet file", expected=expected) from error
        self.name = name
        self._file = ParquetFile(file)
        self._reading = reading
        self._group: tuple[int, Table] | None = None

    def shards(self, size: int) -> Iterator[tuple[Shard, int]]:
        line = 1
        for group in range(self._file.num_row_groups):
            table = self._read_group(group)
            shards = max(1, round(table.nbytes / size))
            multiple = self._reading.multiple
            rows = -(-max(table.num_rows, 1) // (shards * multiple)) * multiple
            for skip in range(0, table.num_rows, rows):
                content = self._rows(table.slice(skip, rows))
                packed, lines = _packed(content), len(content)
                yield Shard(0, self.name, group, skip, line, lines, 0, len(packed), _digest(packed)), lines
                line += lines

    def lines(self, shard: Shard) -> tuple[list[Content], str]:
        if self._group is None or self._group[0] != shard.start:
            self._group = shard.start, self._read_group(shard.start)
        rows = self._rows(self._group[1].slice(shard.skip, shard.lines))
        return rows, _digest(_packed(rows))

    def _read_group(self, index: int) -> "Table":
        if self._reading.objects:
            return self._file.read_row_group(index)
        names = self._file.schema_arrow.names
        wanted = [self._reading.column] if self._reading.column else TEXT_COLUMNS
        column = next((name for name in wanted if name in names), None)
        if column is None:
            expected = f"one named {' or '.join(wanted)}"
            raise ElmoError.at(self.name, found=f"the columns {', '.join(names)}", expected=expected)
        return self._file.read_row_group(index, columns=[column])

    def _rows(self, table: "Table") -> list[Content]:
        return table.to_pylist() if self._reading.objects else table.column(0).to_pylist()


def _counts(line: bytes) -> bool:
    return bool(line.decode("utf-8", "surrogateescape").strip())


def _packed(rows: list[Content]) -> bytes:
    return json.dumps(rows, default=str).encode()


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


@contextmanager
def _errors_of(source: str) -> Iterator[None]:
    try:
        yield
    except ElmoError:
        raise
    except (*UNREADABLE, ValueError, NotImplementedError) as error:  # the last two from pyarrow
        found = getattr(error, "strerror", None) or str(error)
        raise ElmoError.at(source, found=found, expected="a readable file") from error


PLAN = "_plan.json"
MANIFEST = "_manifest.json"
"""The mark of a complete folder of parts. Readers of such folders ignore names that begin with `_`."""
REPLACES = "_replaces"
"""The mark of a run without a plan that replaces OUT, which is not its result."""
FORMER = "checkpoint.npz"
"""The file by which versions up to 0.2 resumed an HDF5 file."""
NEEDED = (PLAN, REPLACES, FORMER)
"""The files that a later run needs; a folder without them may be removed."""
VERSION = 2
"""The version of these files, and of how an input is put into shards, windows and batches."""
_NOTE = re.compile(r"_part-(\d{6,})\.json")
_IN_FOLDER = re.compile(r"__?(part|plan|manifest|rejected)[-.].*|part-\d{6,}\.parquet")
_IN_PARTIAL = re.compile(
    r"__?(part|plan|replaces|result)([-.].*)?|part-\d{6,}\.jsonl|stdin|text|starts|keys|places"
    rf"|vectors\.hdf5|{re.escape(FORMER)}"
)
"""The names of a run's files in OUT, if it is a folder of parts, and in OUT.partial."""

Settings = dict[str, str | int | None]
"""The settings that a run must share with the one it resumes. The key of an argument is its name, `--...`."""
Outcome = dict[str, Any]
"""The result of a shard: its number and counts, or the `error` that ended it."""


def must_run(folder: Folder, output: str | None = None, *, resume: bool, force: bool) -> bool:
    """
    Returns whether there is something to do. If so, the folder holds the plan of the run that is to be
    resumed, or nothing that matters. `output` is the file to write, if it is not the folder itself. Other
    files in the folder are an `ElmoError`, and an output or a stopped run that no option speaks of.
    """
    names = folder.names() - {MARK}
    ours = _IN_FOLDER if output is None else _IN_PARTIAL
    if others := sorted(name for name in names if not ours.fullmatch(name)):
        raise ElmoError(
            f"{folder.location} holds {others[0]}, which this command did not write; "
            "expected an empty folder, or none"
        )
    complete = MANIFEST in names if output is None else exists(output)
    stopped = not names.isdisjoint((PLAN, REPLACES))
    if resume and stopped:
        return True
    if not force and FORMER in names:
        raise ElmoError(
            f"{folder.location} holds a run of a former version, which cannot be resumed; --force starts anew"
        )
    if resume and complete:
        return False
    if not force and complete and (output is None or not stopped):
        raise ElmoError(f"{output or folder.location} exists; --force overwrites it")
    if not force and (stopped or (output is None and names)):
        ways = "--resume goes on with it, --force starts anew" if stopped else "--force starts anew"
        raise ElmoError(f"{folder.location} holds a run that was stopped; {ways}")
    # A kill must not leave a manifest or a plan without the parts.
    folder.remove([MANIFEST, PLAN, *sorted(names - {MANIFEST, PLAN, REPLACES})])
    if output is not None and complete:
        folder.create()
        with folder.writing(REPLACES):
            pass
    return True


@dataclass(kw_only=True)
class Run:
    """A run that `open_run` has opened."""

    folder: Folder
    shards: list[Shard]
    done: dict[int, Outcome] = field(default_factory=dict)
    """The outcomes of the shards that are done, by their numbers."""
    complete: bool = False
    _bar: Any = None

    def __post_init__(self) -> None:
        self._before = set(self.done)

    def left(self) -> list[Shard]:
        """Returns the shards that are not done."""
        return [shard for shard in self.shards if shard.number not in self.done]

    def total(self, count: str, *, new: bool = False) -> int:
        """Returns the sum of a count over all shards or, if `new`, over those that this process has done."""
        return sum(
            outcome[count] for number, outcome in self.done.items() if not (new and number in self._before)
        )

    def progress(self, outcomes: Generator[Outcome, None, None], name: str) -> Generator[Outcome, None, None]:
        """Yields the outcomes as they come, with a bar, and closes them before their engine ends."""
        lines = [shard.lines for shard in self.shards]
        done = sum(lines[number] for number in self.done)
        with (
            closing(outcomes),
            progress(work=name, unit="lines", total=sum(lines), initial=done, unit_scale=True) as self._bar,
        ):
            for outcome in outcomes:
                if "error" not in outcome:
                    self.done[outcome["number"]] = outcome
                    done += lines[outcome["number"]]
                    self._bar.update(done - self._bar.n)
                yield outcome

    def advance(self, lines: int) -> None:
        """Moves the bar within a shard."""
        self._bar.update(lines)

    @contextmanager
    def telling_how_to_resume(self) -> Iterator[None]:
        """Adds to an exception that leaves the context how much is done, and how the run is resumed."""
        try:
            yield
        except BaseException as error:
            with suppress(OSError):
                names = self.folder.names()
                done = sum(shard.lines for shard in self.shards if note_name(shard.number) in names)
                error.add_note(
                    f"{done:,} of {sum(shard.lines for shard in self.shards):,} lines are done, and the same "
                    "command with --resume goes on from there"
                )
            raise


def open_run(
    folder: Folder,
    sources: Sequence[str],
    settings: Settings,
    *,
    reading: Reading,
    shard_bytes: int,
) -> Run:
    """
    Opens the run whose plan is in the folder, or a new one. Other settings, or another input in a shard that
    is done, are an `ElmoError`.
    """
    settings = settings | {"the version of this command": VERSION}
    names = folder.names()
    if PLAN in names:
        plan = _read(folder, PLAN)
        _check_settings(folder, plan["settings"], settings)
        shards = make_shards(sources, plan["shard_bytes"], reading)
        notes = [_read(folder, name) for name in names if _NOTE.fullmatch(name)]
        for note in notes:
            del note["rejects"], note["state"]
        done = {note["number"]: note for note in notes}
        before = [Shard(*shard) for shard in plan["shards"]]
        complete = MANIFEST in names
        if before != shards:
            _check_shards(folder, [shard for shard in before if complete or shard.number in done], shards)
            kept = {shard.name for shard in shards if shard.number in done}
            parts = (name for name in names if name.startswith("part-"))
            folder.remove([name for name in parts if name.partition(".")[0] not in kept])
            write_json(folder, PLAN, plan | {"shards": shards})
        return Run(folder=folder, shards=shards, done=done, complete=complete)
    shards = make_shards(sources, shard_bytes, reading)
    folder.create()
    write_json(folder, PLAN, {"settings": settings, "shard_bytes": shard_bytes, "shards": shards})
    folder.remove([REPLACES])
    return Run(folder=folder, shards=shards)


def note_name(number: int) -> str:
    return f"_part-{number:06}.json"


def write_note(folder: Folder, outcome: Outcome, *, rejects: Sequence[Any] = (), state: Any = None) -> None:
    """Notes that a shard is done, the `rejects` left out, and the `state` in which the next starts."""
    write_json(folder, note_name(outcome["number"]), outcome | {"rejects": rejects, "state": state})


def read_note(folder: Folder, number: int) -> Outcome:
    return _read(folder, note_name(number))


def write_json(folder: Folder, name: str, content: dict[str, Any]) -> None:
    with folder.writing(name) as file:
        file.write(json.dumps(content).encode() + b"\n")


def _read(folder: Folder, name: str) -> dict[str, Any]:
    try:
        return json.loads(folder.read(name))
    except ValueError as error:
        raise ElmoError(
            f"{folder.location}/{name}: found {error}, expected JSON; --force starts anew"
        ) from error


def _check_settings(folder: Folder, before: Settings, now: Settings) -> None:
    differences = [
        f"{key} (was {before.get(key)}, is {now.get(key)})" if key.startswith("--") else key
        for key in before | now
        if before.get(key) != now.get(key)
    ]
    if differences:
        raise ElmoError(
            f"{folder.location} cannot be resumed, this differs: {', '.join(differences)}; --force starts "
            "anew"
        )


def _check_shards(folder: Folder, before: list[Shard], now: list[Shard]) -> None:
    """Raises `ElmoError` if the input of a shard of before is another one now."""
    for old in before:
        if old.number >= len(now):
            where = "another number of lines"
        elif old == (new := now[old.number]):
            continue
        elif old == new._replace(source=old.source):
            where = f"its name was {old.source}, is {new.source}"
        else:
            where = f"{new.source}, after line {new.line}"
        raise ElmoError(
            f"{folder.location} cannot be resumed, the text differs: {where}; --force starts anew"
        )
