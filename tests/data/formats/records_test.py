import csv
import logging
import sys

import pytest

from elmo_tasks.data.formats.delimited import DelimitedLayout, read_delimited
from elmo_tasks.data.formats.records import (
    class_names,
    read_parquet,
    read_records,
    record_format,
)
from elmo_tasks.data.input_files import InputError
from tests.errors import error_of
from tests.records import parquet


def records(path, content, read=read_records, **options):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [(record.line, list(record.values.values())) for record in read(path, **options)]


@pytest.mark.parametrize(
    ("content", "layout", "expected"),
    [
        ("a,b\nx,1\n", {}, [(2, ["x", "1"])]),
        ("a;b\nx, y;1\n", {}, [(2, ["x, y", "1"])]),
        ("a|b\nx|1\n", {}, [(2, ["x", "1"])]),
        ('a\tb\n"He said ""no"" twice"\t1\n', {}, [(2, ['He said "no" twice', "1"])]),
        ('a\tb\n"x\ny"\t1\n"z"\t2\n', {}, [(2, ["x\ny", "1"]), (4, ["z", "2"])]),
        ('"a"\t"b"\n"x"\t"1"\n', {}, [(2, ["x", "1"])]),
        # Quotes that are text, as in MRPC
        ('a\tb\n"No," he .\t1\nHe , " so "\t0\n', {}, [(2, ['"No," he .', "1"]), (3, ['He , " so "', "0"])]),
        ('a\tb\n"x"\t1\ny\t2\n', {}, [(2, ['"x"', "1"]), (3, ["y", "2"])]),
        ('a\tb\n"x"\t1\n', {"quotes": True}, [(2, ["x", "1"])]),
        ('a,b\n"x",1\n', {"quotes": False}, [(2, ['"x"', "1"])]),
        ("v1,v2,,,\nham,hi,,,\nspam,go\n", {}, [(2, ["ham", "hi"]), (3, ["spam", "go"])]),
        (",a,b\n0,x,1\n", {}, [(2, ["x", "1"])]),
        ("a\tb\nx\t1\t\t\n\ny\t2\n", {}, [(2, ["x", "1"]), (4, ["y", "2"])]),
        ('"a, b","x;y"\n"1","b"\n', {"columns": ["t", "d"]}, [(1, ["a, b", "x;y"]), (2, ["1", "b"])]),
        ("text\nx, y\nz\n", {"delimiter": "\t"}, [(2, ["x, y"]), (3, ["z"])]),
        ("a\tb \n \t\nx\t1 \n  \n", {}, [(3, ["x", "1"])]),
        ('a, "b" \n"x, y", "1" \n,\n', {}, [(2, ["x, y", "1"])]),
        ("a,b\rx,1\ry,2\r", {}, [(2, ["x", "1"]), (3, ["y", "2"])]),
        ("a\tb\nx\ry\t1\n", {}, [(2, ["x\ry", "1"])]),
        ("sep=;\r\na;b\r\nx;1\r\n", {}, [(3, ["x", "1"])]),
        ('sep=,\na,b\n"x\ny",1\nz,2\n', {}, [(3, ["x\ny", "1"]), (5, ["z", "2"])]),
    ],
)
def test_delimited(tmp_path, content, layout, expected):
    assert records(tmp_path / "a", content, read_delimited, layout=DelimitedLayout(**layout)) == expected


def test_long_cells_leave_the_limit_of_csv(tmp_path):
    """Two readers may overlap, and one may stop before its end."""
    (tmp_path / "x.csv").write_text(f'text,id\n"{"a" * 200_000}",1\nb,2\n')
    limit = csv.field_size_limit()
    first, second = (read_delimited(tmp_path / "x.csv") for _ in range(2))
    assert len(next(first).values["text"]) == 200_000
    assert [record.values["id"] for record in second] == ["1", "2"]
    assert csv.field_size_limit() > 200_000
    first.close()
    assert csv.field_size_limit() == limit


def test_cells_without_a_name_are_reported(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        records(tmp_path / "a", "a,b,,\nx,1,,\ny,2,more,\n")
    (message,) = (record.getMessage() for record in caplog.records)
    assert message.startswith(f"{tmp_path}/a, line 3: ")
    assert "rows: 1)" in message


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ('{"a": "x", "b": 1}\n\n{"a": "y", "b": 2}\n', (1, 3)),
        ('{"a": "x", "data": [{}]}\n{"a": "y", "data": [{}]}\n', (1, 2)),
        ('[{"a": "x", "b": 1},\n {"a": "y", "b": 2}]', (1, 2)),
        ('\n[\n  {"a": "x",\n "b": 1\n}, {"a": "y", "b": 2}\n]', (3, 5)),
        ('{"version": {"data": []}, "data": [{"a": "x", "b": 1}, {"a": "y", "b": 2}]}', (1, 1)),
        ('[["x", {"b": 1}], ["y", {"b": [[2]]}]]', (1, 1)),
        ('[\n[\n"x", {"b": 1}],\n[ "y", {}]]', (2, 4)),
        ('["x", {"b": 1}]\n["y", {}]\n', (1, 2)),
        ('{"classes": [],\n"annotations": [["x", {"b": 1}],\n["y", {}]]}', (2, 3)),
        ('{"rasa_nlu_data": {"regex": [],\n"common_examples": [{"a": "x"},\n{"a": "y"}]}}', (2, 3)),
        (
            '{"num": 2, "rows":\n[{"row_idx": 0, "row": {"a": "x"}}, {"row_idx": 1, "row": {"a": "y"}}]}',
            (2, 2),
        ),
        ('{"version": "}",\n"data" : [\n{"a": "x", "b": 1},\n{"a": "y", "b": 2}]}', (3, 4)),
    ],
)
def test_json(tmp_path, content, lines):
    read = records(tmp_path / "a", content)
    assert [line for line, _ in read] == list(lines)
    assert [values[0] for _, values in read] == ["x", "y"]


def test_parquet(tmp_path):
    classes = {"_type": "ClassLabel", "names": ["O", "B-PER"]}
    features = {"tags": {"feature": classes, "_type": "Sequence"}, "label": classes, "old": [classes]}
    rows = [{"tags": [0, 1], "label": 0}, {"tags": [1], "label": 1}]
    (tmp_path / "a").write_bytes(parquet(*rows, **features, x={}))
    assert record_format(tmp_path / "a") == "parquet"
    assert [(row.line, row.values) for row in read_records(tmp_path / "a")] == list(enumerate(rows, 1))
    assert class_names(tmp_path / "a") == dict.fromkeys(("tags", "label", "old"), classes["names"])
    (tmp_path / "b").write_bytes((tmp_path / "a").read_bytes()[:-9])
    assert error_of(InputError, lambda: list(read_parquet(tmp_path / "b"))).startswith(f"{tmp_path}/b: ")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install pyarrow" in error_of(InputError, records, tmp_path / "a", b"PAR1")
