"""Records of a file in whichever format it is: Parquet, JSON, or columns between delimiters."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from elmo_tasks.data.formats.delimited import read_delimited
from elmo_tasks.data.formats.json_records import read_json_records
from elmo_tasks.data.formats.parquet import MAGIC, read_parquet
from elmo_tasks.data.input_files import Record, read_lines

RecordFormat = Literal["parquet", "json", "delimited"]
_JSON = re.compile(r'\s*(?:\{\s*(?:"|\}|$)|\[\s*(?:\{|\]|$))')


def read_records(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    delimiter: str = "auto",
    quotes: bool | Literal["auto"] = "auto",
    encoding: str = "utf-8",
) -> Iterator[Record]:
    """
    Yields the records of a file of any `record_format`. The parameters are those of `read_delimited`.

    # Raises
    `InputError`: see the functions of the formats.
    """
    format = record_format(path, encoding=encoding)
    if format == "parquet":
        return read_parquet(path)
    if format == "json":
        return read_json_records(path, encoding=encoding)
    return read_delimited(path, columns=columns, delimiter=delimiter, quotes=quotes, encoding=encoding)


def record_format(path: Path, *, encoding: str = "utf-8") -> RecordFormat:
    """
    Returns the format of a file, by its begin.

    # Raises
    `InputError`: see `read_lines`.
    """
    if is_parquet(path):
        return "parquet"
    first = next((line for _, line in read_lines(path, encoding=encoding) if line.strip()), "")
    return "json" if _JSON.match(first) else "delimited"


def is_parquet(path: Path) -> bool:
    """Tells whether a file is Parquet, by its first bytes; `False` if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
