import csv
import gzip
import json

import pytest

from elmo_tasks.classification.reader import read_records
from elmo_tasks.data.input_files import InputError

RECORDS = [
    {"id": "1", "text": 'He said "no", twice.', "class": "bad"},
    {"id": "2", "text": "Fine; wine's 3,50.", "class": "good"},
    {"id": "3", "text": "좋은 하루", "class": "good"},
]
COLUMNS = list(RECORDS[0])
ROWS = [list(record.values()) for record in RECORDS]


def read(path, content, format, columns=None):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_records(path, format, columns))


def as_csv(rows):
    return "".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\n" for row in rows)


def as_tsv(rows):
    return "\n".join(map("\t".join, rows)) + "\n"


@pytest.mark.parametrize(
    ("content", "format", "columns", "lines"),
    [
        (as_csv([COLUMNS, *ROWS]), "csv", None, [2, 3, 4]),
        (as_csv(ROWS), "csv", COLUMNS, [1, 2, 3]),
        ("\ufeff" + as_csv([COLUMNS, *ROWS]).replace("\n", "\r\n"), "csv", None, [2, 3, 4]),
        (as_tsv([COLUMNS, *ROWS]), "tsv", None, [2, 3, 4]),
        ("\ufeff" + as_tsv([COLUMNS, *ROWS]).replace("\n", "\r\n"), "tsv", None, [2, 3, 4]),
        ("\n" + as_tsv(ROWS).replace("\n", "\n\n"), "tsv", COLUMNS, [2, 4, 6]),
        (json.dumps(RECORDS), "json", None, [1, 1, 1]),
        (json.dumps(RECORDS, indent=4, ensure_ascii=False), "json", None, [2, 7, 12]),
        ("\n".join(map(json.dumps, RECORDS)) + "\n\n", "jsonl", None, [1, 2, 3]),
    ],
)
def test_formats(tmp_path, content, format, columns, lines):
    for name, bytes_ in (("a", content.encode()), ("a.gz", gzip.compress(content.encode()))):
        records = read(tmp_path / name, bytes_, format, columns)
        assert [record.values for record in records] == RECORDS
        assert [record.line for record in records] == lines


def test_csv_agrees_with_python_on_odd_fields(tmp_path):
    rows = [["x, \n\n y", "good"], ['"', "bad"], ["a\tb \u2028 c", "good"], ["long " * 50_000, "bad"]]
    with open(tmp_path / "odd", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    records = list(read_records(tmp_path / "odd", "csv", ["text", "class"]))
    assert [list(record.values.values()) for record in records] == rows
    assert [record.line for record in records] == [1, 4, 5, 6]


def test_values_of_json_are_of_any_type(tmp_path):
    values = [{"a": 1, "b": None}, {}, {"c": {"[": [",", "]"]}}]
    assert [record.values for record in read(tmp_path / "a", json.dumps(values, indent=1), "json")] == values


def test_text_has_one_column(tmp_path):
    assert read(tmp_path / "a", ' One "line",\n\n \nAnother\tone\n', "text") == [
        (1, {"text": ' One "line",'}),
        (4, {"text": "Another\tone"}),
    ]


def test_a_document_is_a_file(tmp_path):
    assert read(tmp_path / "a", "\ufeff One.\r\n\nTwo.\n", "document") == [(1, {"text": " One.\n\nTwo."})]


@pytest.mark.parametrize(
    ("format", "content"),
    [("csv", "a,b\n"), ("tsv", ""), ("json", "[]"), ("jsonl", "\n"), ("document", " \n\n")],
)
def test_no_record(tmp_path, format, content):
    assert read(tmp_path / "a", content, format) == []


@pytest.mark.parametrize(
    ("format", "content", "expected"),
    [
        ("tsv", "text\tclass\nx\n", ", line 2: found 1 columns, expected 2: text, class"),
        ("csv", "text\nx\n\nx,y\n", ", line 4: found 2 columns, expected 1: text"),
        ("tsv", "text\ttext\n", ", line 1: found the column 'text' twice, expected a header"),
        (
            "csv",
            'text,class\nx,good\n"open,good\nx,bad\n',
            ", line 3: found no csv (unexpected end of data), expected csv",
        ),
        ("csv", 'a\nx"y"\n"x"y\n', ", line 3: found no csv (',' expected after '\"'), expected csv"),
        ("jsonl", '\n{"text": x}\n', ", line 2: found no JSON (Expecting value, column 10), expected JSON"),
        ("jsonl", "[1]\n", ", line 1: found [1], expected a JSON object"),
        ("json", '[{},\n{"a": }]', ", line 2: found no JSON (Expecting value, column 7), expected JSON"),
        ("json", '[{},\n{}, "x"\n]', ', line 2: found "x", expected a JSON object'),
        ("json", '{"data": []}', ": found a dict, expected a list of JSON objects"),
        ("tsv", b"text\tclass\nx\xff\tgood\n", ", line 2: found the byte 0xff at offset 12, expected UTF-8"),
    ],
)
def test_errors_name_the_line(tmp_path, format, content, expected):
    with pytest.raises(InputError) as caught:
        read(tmp_path / "data", content, format)
    assert str(caught.value) == f"{tmp_path / 'data'}{expected}"
