"""A sample of data of an unknown format: what all formats look at, read and decoded once."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from os import SEEK_END
from pathlib import Path
from typing import Any

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import UNREADABLE, decompressed, text_lines
from elmo_tasks.data.formats.records import is_parquet, read_records, record_format
from elmo_tasks.data.input_files import InputError, first_lines, input_files, likely_encoding, parse_json

HEAD = 1000
"""The lines at the beginning of a file that are looked at."""
_PLACES, _LINES_OF_PLACE, _BYTES_OF_PLACE = 40, 10, 1 << 14
"""The places of a file behind its head that are looked at."""
_RECORDS = 500
TABLE_FILES = (".csv", ".tsv")
_UNPACKED = "-unpacked/"
_SEPARATOR = re.compile(r"#|(\d+[ \t]+)?-DOCSTART-")
_STEP, _MOST_LINES = 400, 1_000_000
"""Of files without places, two lines of so many are looked at, and this many at most."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The first lines of data of an unknown format, and lines and records spread over the rest."""

    files: Sequence[Path]
    encoding: str
    all_lines: Sequence[str]
    """The first lines of the first file; none if it is not a text."""
    label: str | None = None
    """The column of the labels, if it is chosen."""
    texts: Sequence[str] = ()
    """The columns of the texts, if they are chosen."""
    path: str | list[str] = ""
    """The path as it was given; empty for files alone."""

    def shown(self, file: Path) -> str:
        """Returns the path of a file, and not that of its copy if an archive has it."""
        _, in_archive, member = str(file).partition(_UNPACKED)
        is_member = in_archive and isinstance(self.path, str) and self.path
        return f"{str(self.path).partition('!')[0]}!{member}" if is_member else str(file)

    @cached_property
    def lines(self) -> list[str]:
        """The first lines that are not blank."""
        return list(filter(str.strip, self.all_lines))

    @cached_property
    def spread(self) -> list[str]:
        """Lines all over the rest of the first file."""
        return _lines_at_places(self.files[0], self.encoding) if len(self.all_lines) == HEAD else []

    @cached_property
    def has_blank_lines(self) -> bool:
        """Whether there are blank lines between others, as between sentences with a token a line."""
        return "\n\n" in "\n".join(map(str.strip, self.all_lines)).strip()

    @cached_property
    def first_row(self) -> str:
        """The first line that is neither a comment nor between documents; empty if there is none."""
        return next((line for line in self.lines if not _SEPARATOR.match(line)), "")

    @cached_property
    def first_cells(self) -> set[str]:
        """The cells of the first line, which may name columns, in small letters."""
        cells = re.split("[,;|\t]", self.lines[0].lower()) if self.lines else ()
        return {cell.strip("\"' ") for cell in cells}

    @cached_property
    def is_json(self) -> bool:
        return self.record_format == "json"

    @cached_property
    def is_parquet(self) -> bool:
        return self.record_format == "parquet"

    @property
    def has_records(self) -> bool:
        """Whether the data are JSON or Parquet, whose records name their values."""
        return self.is_json or self.is_parquet

    @cached_property
    def record_format(self) -> str:
        file = self.files[0]
        return record_format(file, encoding=self.encoding) if self.lines or is_parquet(file) else ""

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """Records of JSON and Parquet, without damaged ones; a single value of JSON is read whole."""
        return self._records_and_problem[0]

    @cached_property
    def problem(self) -> InputError | None:
        """The error of the first damaged record of JSON or Parquet, or of a value that is not JSON."""
        return self._records_and_problem[1]

    @cached_property
    def _records_and_problem(self) -> tuple[list[dict[str, Any]], InputError | None]:
        records: list[dict[str, Any]] = []
        problem: InputError | None = None
        if self.has_records:
            try:
                # Lines all over the rest show more records where each has a line.
                has_lines = self.is_json and self.lines[0].rstrip().endswith("}")
                read = islice(
                    read_records(self.files[0], encoding=self.encoding),
                    _RECORDS if has_lines else _MOST_LINES,
                )
                for index, record in enumerate(read):
                    if index >= _RECORDS and index % _STEP >= 2:
                        continue
                    values = record.make(dict)
                    if isinstance(values, InputError):
                        problem = problem or values
                    else:
                        records.append(values)
            except InputError as error:
                problem = error
        for line in self.spread if self.is_json else ():
            if line.startswith("{") and line.endswith("}"):
                with suppress(InputError):  # the reader says where a damaged line is
                    records.append(parse_json(line, self.files[0], 1))
        return records, problem

    @cached_property
    def first_values(self) -> dict[str, Any]:
        """The values of the first record of JSON or Parquet; none of other data."""
        return self.records[0] if self.records else {}


def sample_of(path: str | list[str], label: str | None = None, texts: Sequence[str] = ()) -> Sample:
    """Returns a sample of the data at a path; without a file it is an `InputError`."""
    files = input_files(path)
    encodings = {likely_encoding(file) or "ascii": file for file in files}
    encodings.pop("ascii", None)
    if len(encodings) > 1 and len({file.suffix for file in encodings.values()}) == 1:
        each = " and ".join(f"{file.name} is {encoding}" for encoding, file in encodings.items())
        remedy = "write them all in UTF-8, such as by `iconv -f cp1252 -t utf-8`"
        raise InputError(f"the files have several encodings: {each}", where=path, remedy=remedy)
    encoding = next(iter(encodings)) if len(encodings) == 1 else "utf-8"
    if len(files) > 1 and all(file.suffix in TABLE_FILES for file in files):
        files.sort(key=lambda file: -len(sample_of_files([file], encoding).first_cells))
    return replace(sample_of_files(files, encoding), label=label, texts=texts, path=path)


def sample_of_files(files: Sequence[Path], encoding: str) -> Sample:
    """Returns a sample of files in an encoding."""
    return Sample(files, encoding, first_lines(files[0], HEAD, encoding))


def _lines_at_places(path: Path, encoding: str) -> list[str]:
    """Returns lines at places all over a file; of a packed one, or of UTF-16, two of each `_STEP`."""
    lines: list[str] = []
    with suppress(*UNREADABLE, ElmoError), open(path, "rb") as packed:
        if decompressed(packed) is not packed or encoding.startswith("utf-16"):
            numbered = islice(text_lines(path, encoding=encoding), HEAD, _MOST_LINES)
            return [line for number, line in numbered if number % _STEP < 2]
        size = packed.seek(0, SEEK_END)
        for place in range(1, _PLACES):
            packed.seek(size * place // _PLACES)
            whole_lines = packed.read(_BYTES_OF_PLACE).split(b"\n")[1:-1][:_LINES_OF_PLACE]
            lines += (line.decode(encoding, "replace").rstrip("\r") for line in whole_lines)
    return [line for line in lines if "\ufffd" not in line]
