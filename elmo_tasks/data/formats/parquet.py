"""Records in Parquet, and the names of their classes. It needs pyarrow."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmo_tasks.data.input_files import InputError, Record

MAGIC = b"PAR1"
"""The first bytes of a file."""
_SCHEMA = b"huggingface"
_ROWS = 1024
"""The rows that are in memory at a time."""


def read_parquet(path: Path) -> Iterator[Record]:
    """
    Yields the rows of a file; their numbers, from 1, are their lines.

    # Raises
    `InputError`: pyarrow is not installed, or cannot read the file.
    """
    pyarrow, file = _open(path)
    number = 0
    with file:
        try:
            for batch in file.iter_batches(batch_size=_ROWS):
                for number, values in enumerate(batch.to_pylist(), start=number + 1):  # noqa: B020
                    yield Record(number, values)
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError.at(path, number + 1, found=str(error), expected="a row of Parquet") from error


def class_names(path: Path) -> dict[str, list[str]]:
    """
    Returns the names of the classes that a column has by number, by the schema that `datasets` writes into a
    file: of its columns of classes, and of lists of classes.

    # Raises
    `InputError`: see `read_parquet`.
    """
    _, file = _open(path)
    with file:
        schema = json.loads((file.schema_arrow.metadata or {}).get(_SCHEMA, b"{}"))
    features = schema.get("info", {}).get("features", {})
    return {column: names for column, feature in features.items() if (names := _names(feature))}


def _names(feature: Any) -> list[str] | None:
    if isinstance(feature, list):
        return _names(feature[0]) if feature else None
    if not isinstance(feature, dict):
        return None
    return feature["names"] if isinstance(feature.get("names"), list) else _names(feature.get("feature"))


def _open(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError.at(
            path, found="a Parquet file", expected="`pip install pyarrow` before it"
        ) from error
    try:
        return pyarrow, parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError.at(path, found=str(error), expected="a Parquet file") from error
