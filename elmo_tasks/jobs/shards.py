"""
An input in parts that are read by themselves: bytes of a text, rows of a Parquet file.

A part follows from the input alone, and has a hash of what is in it: so a later run finds out whether the
input is still the same.
"""

import codecs
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from gzip import GzipFile
from hashlib import blake2b
from typing import Any, BinaryIO, NamedTuple, cast
from zlib import error as ZlibError

import pyarrow as pa
from pyarrow import parquet as pq

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.jobs.storage import byte_size, open_source

MIN_BYTES, MAX_BYTES = 1 << 14, 1 << 20
"""Of a shard, unless the user says so: some 3,000 and 180,000 words of English."""
SHARDS_OF_A_WORKER = 16
MAX_LINE = 1 << 26
"""Bytes."""
TEXT_COLUMNS = ("tokens", "text", "sentence")
"""Of a Parquet file; the first that it has is read, if none is named."""

Content = Any
"""A line in bytes; or a value of a Parquet column, or a whole row, a dictionary."""


class Shard(NamedTuple):
    """The unit of work: what one worker reads and writes at once."""

    number: int
    source: str
    start: int
    """The first byte, in the unpacked text; or the row group."""
    skip: int
    """Rows of the row group before this shard."""
    line: int
    """The first line, or row, of its source, from 1."""
    lines: int
    before: int
    """Lines of all shards before this one; where blank ones do not count, without them."""
    size: int
    """Bytes."""
    digest: str

    @property
    def name(self) -> str:
        return f"part-{self.number:06}"


class Reading(NamedTuple):
    """How an input is read."""

    folder: str
    """Where relative paths start."""
    column: str | None = None
    """Of Parquet files, instead of one of `TEXT_COLUMNS`."""
    objects: bool = False
    """The lines are JSON: blank ones do not count, a row of Parquet is an object of all its columns."""
    multiple: int = 1
    """A shard has a multiple of so many lines that count, unless its source ends: batches are not cut."""
    checked: bool = True
    """A byte that is not UTF-8 is an error when the shards are made."""


def shard_bytes(sources: Sequence[str], workers: int) -> int:
    """A size that gives every worker several shards."""
    total = sum(map(byte_size, sources))
    return min(max(total // (SHARDS_OF_A_WORKER * workers), MIN_BYTES), MAX_BYTES)


def make_shards(sources: Sequence[str], size: int, reading: Reading) -> list[Shard]:
    """
    The shards of all sources in their order, of `size` bytes and what is left of the last line.

    # Raises
    `ElmoError`, with the source and where possible the line: see `Reading.checked`; a line of more than
    `MAX_LINE` bytes; what cannot be read, or has no such column.
    """
    shards: list[Shard] = []
    before = 0
    for source in sources:
        with _open(source, reading) as file:
            parts = _parquet_parts if isinstance(file, pq.ParquetFile) else _text_parts
            for shard, counted in parts(file, source, size, reading):
                shards.append(shard._replace(number=len(shards), before=before))
                before += counted
    return shards


class ShardReader:
    """Reads shards; the file stays open for the next one, so that a gzip file is unpacked once in order."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._open: tuple[str, Any] | None = None
        self._group: tuple[int, pa.Table] | None = None

    def lines(self, shard: Shard) -> list[Content]:
        """
        # Raises
        `ElmoError`: the source cannot be read, or is not as it was when the shards were made.
        """
        with _errors(shard.source):
            file = self._file(shard.source)
            if isinstance(file, pq.ParquetFile):
                lines = _rows(self._table(file, shard).slice(shard.skip, shard.lines), self._reading)
                digest = _digest(_packed(lines))
            else:
                file.seek(shard.start)
                block = file.read(shard.size)
                digest = _digest(block)
                lines = block.removesuffix(b"\n").split(b"\n")
        if digest != shard.digest:
            found = "a text that has changed since the run began"
            raise ElmoError.at(shard.source, shard.line, found=found, expected="the same text")
        if shard.line == 1 and isinstance(lines[0], bytes):
            lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
        return lines

    def _file(self, source: str) -> Any:
        if self._open is None or self._open[0] != source:
            self._open, self._group = (source, _opened(source, self._reading)), None
        return self._open[1]

    def _table(self, file: pq.ParquetFile, shard: Shard) -> pa.Table:
        if self._group is None or self._group[0] != shard.start:
            self._group = shard.start, _row_group(file, shard.start, shard.source, self._reading)
        return self._group[1]


def _text_parts(file: BinaryIO, source: str, size: int, reading: Reading) -> Iterator[tuple[Shard, int]]:
    """And how many of their lines count."""
    start, line = 0, 1
    while block := file.read(size):
        if not block.endswith(b"\n"):
            block += _to_line_end(file, source, line)
        if reading.objects:
            counted = sum(map(_counts, block.split(b"\n")))
            while counted % reading.multiple and (next_line := _to_line_end(file, source, line)):
                block += next_line
                counted += _counts(next_line)
        if reading.checked:
            _check_utf8(block, source, start, line)
        lines = block.count(b"\n") + (not block.endswith(b"\n"))
        shard = Shard(
            number=0,
            source=source,
            start=start,
            skip=0,
            line=line,
            lines=lines,
            before=0,
            size=len(block),
            digest=_digest(block),
        )
        yield shard, counted if reading.objects else lines
        start, line = start + len(block), line + lines


def _to_line_end(file: BinaryIO, source: str, line: int) -> bytes:
    rest = file.readline(MAX_LINE)
    if len(rest) == MAX_LINE:
        found, expected = f"a line of more than {MAX_LINE:,} bytes, there or soon after", "shorter lines"
        raise ElmoError.at(source, line, found=found, expected=expected)
    return rest


def _counts(line: bytes) -> bool:
    text = line.decode("utf-8", "surrogateescape")
    return bool(text) and not text.isspace()


def _check_utf8(block: bytes, source: str, start: int, line: int) -> None:
    try:
        block.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"the byte 0x{block[error.start]:02x} at offset {start + error.start}"
        line += block.count(b"\n", 0, error.start)
        raise ElmoError.at(source, line, found=found, expected="UTF-8") from error


def _parquet_parts(
    file: pq.ParquetFile, source: str, size: int, reading: Reading
) -> Iterator[tuple[Shard, int]]:
    line = 1
    for group in range(file.num_row_groups):
        table = _row_group(file, group, source, reading)
        shards = max(1, round(table.nbytes / size))
        rows = -(-max(table.num_rows, 1) // (shards * reading.multiple)) * reading.multiple
        for skip in range(0, table.num_rows, rows):
            content = _rows(table.slice(skip, rows), reading)
            packed = _packed(content)
            shard = Shard(
                number=0,
                source=source,
                start=group,
                skip=skip,
                line=line,
                lines=len(content),
                before=0,
                size=len(packed),
                digest=_digest(packed),
            )
            yield shard, len(content)
            line += len(content)


def _row_group(file: pq.ParquetFile, number: int, source: str, reading: Reading) -> pa.Table:
    if reading.objects:
        return file.read_row_group(number)
    names = file.schema_arrow.names
    wanted = [reading.column] if reading.column else TEXT_COLUMNS
    column = next((name for name in wanted if name in names), None)
    if column is None:
        expected = f"one named {' or '.join(wanted)}"
        raise ElmoError.at(source, found=f"the columns {', '.join(names)}", expected=expected)
    return file.read_row_group(number, columns=[column])


def _rows(table: pa.Table, reading: Reading) -> list[Content]:
    return table.to_pylist() if reading.objects else table.column(0).to_pylist()


def _packed(rows: list[Content]) -> bytes:
    return json.dumps(rows, default=str).encode()


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _opened(source: str, reading: Reading) -> Any:
    """A `ParquetFile` or a text, unpacked; each known by how it begins, whatever its name."""
    file = open_source(source, reading.folder)
    head = file.read(4)
    file.seek(0)
    if head == b"PAR1":
        return pq.ParquetFile(file)
    return GzipFile(fileobj=file) if head.startswith(b"\x1f\x8b") else file


@contextmanager
def _open(source: str, reading: Reading) -> Iterator[Any]:
    with _errors(source), _opened(source, reading) as file:
        yield cast(Any, file)


@contextmanager
def _errors(source: str) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, ZlibError, pa.ArrowException, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise ElmoError.at(source, found=found, expected="a readable file") from error
