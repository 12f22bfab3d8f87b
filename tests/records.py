"""Records as files hold them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from elmo_tasks.data.tag_schemes import Scheme, to_spans


def json_lines(*records: Any) -> str:
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)


def read_with(reader: Any, path: Path, content: str | bytes, **parameters: Any) -> list[Any]:
    """What a reader, or the reader of a class with these parameters, reads from a file of this content."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list((reader(**parameters) if isinstance(reader, type) else reader).read(str(path)))


def words_of(instances: list[Any], field: str) -> list[list[str]]:
    return [[token.text for token in instance[field]] for instance in instances]


def labels_of(instances: list[Any]) -> list[str]:
    return [instance["label"].label for instance in instances]


def entities(instance: Any) -> list[str] | None:
    """The entities of an instance, such as `Ann Lee:PER`; None if it is not tagged."""
    if "tags" not in instance.fields:
        return None
    words = [token.text for token in instance["tokens"]]
    spans = to_spans(list(instance["tags"]), Scheme.BIOUL)
    return [f"{' '.join(words[span.start : span.end])}:{span.label}" for span in spans]


def parquet(*records: dict[str, Any], **features: Any) -> bytes:
    """With the features of columns as Hugging Face's datasets have them."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.Table.from_pylist(list(records))
    if features:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    parquet.write_table(table, sink := io.BytesIO())
    return sink.getvalue()
