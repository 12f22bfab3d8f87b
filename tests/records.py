"""Records as files hold them."""

import io
import json
from typing import Any

import pytest


def json_lines(*records: Any) -> str:
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)


def parquet(*records: dict[str, Any], **features: Any) -> bytes:
    """With the features of columns as Hugging Face's datasets have them."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.Table.from_pylist(list(records))
    if features:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    parquet.write_table(table, sink := io.BytesIO())
    return sink.getvalue()
