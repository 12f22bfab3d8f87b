"""Data that no reader reads are told by name, and other data are not."""

import gzip
import json
import pickle

import pytest

from elmo_tasks.common.files import bundled
from elmo_tasks.data.formats.refusals import refusal
from elmo_tasks.data.formats.sample import sample_of
from tests.errors import mentions

PROP = "nw/x.tree 0 4 gold run run.01 ----- 0:1-ARG0 4:0-rel 5:1-ARG1\n"
NOM = "wsj/00/wsj_0003.mrg 0 11 use 01 0:1-ARG0 11:0-rel 12:1-ARG1\n"
UP2 = "# global.columns = ID UP:PRED UP:ARGHEADS UP:ARGSPANS\n1\t_\t_\t_\n2\tsing.01\tA0:1\tA0:1-1\n"
SPACY2 = [
    {"id": 0, "paragraphs": [{"raw": "Ann.", "sentences": [{"tokens": [{"orth": "Ann", "ner": "U-PER"}]}]}]}
]

CHOICES = '[{"annotations": [{"result": [{"value": {"choices": ["x"]}}]}], "data": {"text": "A day."}}]'


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (PROP, ["PropBank", "words"]),
        (NOM * 2, ["PropBank", "words"]),
        (">p1 a protein\nMKVLAA\nGGHTRE\n\n>p2\nMSS*\n", ["FASTA", "--format fasta"]),
        (UP2, ["FORM", "merge_ud_up.py"]),
        (json.dumps(SPACY2), ["spaCy 2", "spacy convert"]),
        (json.dumps(SPACY2, indent=1), ["spaCy 2", "spacy convert"]),
        ("\n<!DOCTYPE html>\n<html>\n", ["HTML"]),
        ("<?xml version='1.0'?>\n<text/>\n", ["XML"]),
        (CHOICES, ["Label Studio", "JSON-MIN"]),
        ("<PERSON>Ann</PERSON> runs .\n", ["tags between"]),
        ("", ["empty"]),
        (" \n\n", ["empty"]),
        (gzip.compress(b"", mtime=0), ["empty"]),
        (pickle.dumps(["Ann"]), ["pickle"]),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), ["Excel", "csv"]),
        (b"\x7fELF" + bytes(99), ["binary"]),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", ["binary"]),
    ],
)
def test_data_that_are_told_by_name(tmp_path, content, values):
    (tmp_path / "a b").write_bytes(content if isinstance(content, bytes) else content.encode())
    error = refusal(sample_of(str(tmp_path / "a b")))
    assert mentions(str(error), str(tmp_path / "a b"), *values)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a", "Ann\tB-PER\nran\tO\n\n"),
        ("a", "Ann runs .\n".encode("utf-16")),
        ("a.data.xml", b"<?xml version='1.0'?>\n<text/>\n"),
        ("a", json.dumps([{"paragraphs": [{"context": "Ann.", "qas": []}]}])),
        ("a", "<PERSON> of <ORG> ran .\n"),
        ("a", "> quoted text of a mail\nwith words\n"),
        ("a.spacy", b"x\x9c\x00\x01"),
        ("a", UP2.replace("ID", "ID FORM")),
        ("a.gz", gzip.compress(b"Ann runs.\n", mtime=0)[:-9]),
    ],
)
def test_other_data_are_not_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert refusal(sample_of(str(tmp_path / name))) is None


def test_fixtures_are_not_refused():
    files = [
        file
        for file in bundled("fixtures").rglob("*")
        if file.suffix in (".conll", ".csv", ".txt", ".jsonl", ".json", ".parquet")
    ]
    assert len(files) > 20
    assert [file for file in files if refusal(sample_of(str(file)))] == []
