import gzip
import json
import logging
from functools import partial

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.tokenizers import WhitespaceTokenizer

from elmo_tasks.classification.reader import ClassificationReader
from tests.errors import mentions
from tests.records import json_lines, labels_of, parquet, read_with, words_of

RECORDS = [
    {"id": "1", "text": 'He said "no", twice.', "class": "bad"},
    {"id": "2", "text": "Fine; wine's 3,50.", "class": "good"},
    {"id": "3", "text": "좋은 하루", "class": "good"},
]
COLUMNS = list(RECORDS[0])
ROWS = [list(record.values()) for record in RECORDS]
WORDS = [["He", "said", '"no",', "twice."], ["Fine;", "wine's", "3,50."], ["좋은", "하루"]]


def reader(**parameters):
    defaults = {"format": "tsv", "sentence1": "text", "label": "class", "classes": ["good", "bad"]}
    return ClassificationReader(**{"tokenizer": WhitespaceTokenizer(), **defaults, **parameters})


def pair_reader(**parameters):
    return reader(sentence1="a", sentence2="b", label="c", **parameters)


def words(instances, field="sentence1"):
    return words_of(instances, field)


def as_tsv(rows):
    return "\n".join(map("\t".join, rows)) + "\n"


def as_csv(rows, delimiter=","):
    return "".join(delimiter.join('"' + cell.replace('"', '""') + '"' for cell in row) + "\n" for row in rows)


TSV = as_tsv([COLUMNS, *ROWS])


def test_instances(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        instances = read_with(reader(), tmp_path / "a", TSV)
    assert words(instances) == WORDS
    assert labels_of(instances) == ["bad", "good", "good"]
    assert f"{tmp_path / 'a'}: 3 instances (bad 1, good 2)" in caplog.text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text,class\nx,good\ny,\nz,bad\nu, \n"),
        ("a.jsonl", json_lines(*({"text": "x", "class": label} for label in ("good", None, "bad", [])))),
        ("a.json", json.dumps([{"text": "x", "class": label} for label in ("good", "", "bad", " ")])),
    ],
)
def test_records_without_a_label_are_left_out_and_counted(tmp_path, caplog, name, content):
    instances = read_with(reader(format="auto"), tmp_path / name, content)
    assert labels_of(instances) == ["good", "bad"]
    line = "" if name == "a.json" else 3 if name == "a.csv" else 2
    assert mentions(caplog.text, f"{name}, line {line}", "without a label", ": 2)")


def test_several_columns_are_one_text(tmp_path):
    of = reader(format="csv", columns=["class", "title", "text"], sentence1=["title", "text"])
    instances = read_with(of, tmp_path / "a", "good,Rain,It rains\nbad,,Sun\n")
    assert words(instances) == [["Rain", "It", "rains"], ["Sun"]]


def test_pairs(tmp_path):
    of = pair_reader(label_names={"0": "bad", "1": "good"})
    (instance,) = read_with(of, tmp_path / "a", 'c\ta\tb\n1\tsome "words" here\tx\n')
    assert words([instance]) == [["some", '"words"', "here"]]
    assert words([instance], "sentence2") == [["x"]]
    assert instance["label"].label == "good"
    assert len(instance["metadata"]) == 3


def test_labels_are_names_or_numbers_and_their_order_is_that_of_the_classes(tmp_path):
    content = '[{"text": "x", "class": 1}, {"text": "y", "class": "1"}, {"text": "z", "class": true}]'
    of = reader(format="json", classes=["C", "B", "A"], label_names={"1": "A", "true": "B", "0": "C"})
    instances = read_with(of, tmp_path / "a", content)
    assert labels_of(instances) == ["A", "A", "B"]
    vocab = Vocabulary.from_instances(instances)
    assert list(vocab.get_token_to_index_vocabulary("labels")) == ["C", "B", "A"]


@pytest.mark.parametrize(
    ("parameters", "key"),
    [
        ({"format": "json", "columns": ["text"]}, "columns"),
        ({"format": "csv", "columns": ["text", "text"]}, "columns"),
        ({"classes": ["one"]}, "classes"),
        ({"classes": ["one", "one"]}, "classes"),
        ({"classes": ["@@PADDING@@", "one"]}, "classes"),
        ({"label_names": {"0": "good", "1": "bed"}}, "label_names"),
    ],
)
def test_impossible_parameters(parameters, key):
    block = {"type": "elmo_classifier", "format": "tsv", "sentence1": "text", "label": "class"}
    with pytest.raises(ConfigurationError, match=key):
        DatasetReader.from_params(Params(block | {"classes": ["good", "bad"]} | parameters))
    misspelt = {"type": "elmo_classifier", "format": "csv", "sentence": "text"}
    with pytest.raises(ConfigurationError, match=r"'sentence';.*'sentence"):
        DatasetReader.from_params(Params(misspelt))


FEATURES = {"text": {"_type": "Value"}, "class": {"_type": "ClassLabel", "names": ["good", "bad"]}}
BY_LABEL = {"label": "label"}
LISTED = [{"text": record["text"], "class": [record["class"]]} for record in RECORDS]
NUMBERED = [{"text": record["text"], "class": ["good", "bad"].index(record["class"])} for record in RECORDS]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("format", "content", "parameters"),
    [
        ("csv", as_csv([COLUMNS, *ROWS]), {}),
        ("csv", as_csv(ROWS), {"columns": COLUMNS}),
        ("csv", "\ufeff" + as_csv([COLUMNS, *ROWS]).replace("\n", "\r\n"), {}),
        ("delimited", as_csv([COLUMNS, *ROWS], ";"), {}),
        ("delimited", as_csv([[*COLUMNS, "", ""], *([*row, "", ""] for row in ROWS)]), {}),
        ("tsv", TSV, {}),
        ("tsv", "\n" + as_tsv(ROWS).replace("\n", "\n\n"), {"columns": COLUMNS}),
        ("json", json.dumps(RECORDS), {}),
        ("json", json.dumps({"data": RECORDS}, indent=1), {}),
        ("jsonl", "\n".join(map(json.dumps, RECORDS)) + "\n\n", {}),
        ("jsonl", json_lines(*LISTED), {}),
        ("parquet", partial(parquet, *NUMBERED, **FEATURES), {}),
        ("parquet", partial(parquet, *LISTED), {}),
        ("label_text", "".join(f"{row[2]} {row[1]}\n" for row in ROWS), BY_LABEL),
        ("label_text", "".join(f"{row[2]}:more\t{row[1]}\n" for row in ROWS), BY_LABEL),
        ("fasttext", "".join(f"__label__{row[2]} {row[1]}\n" for row in ROWS), BY_LABEL),
    ],
)
def test_formats_are_found(tmp_path, format, content, parameters, packed):
    if packed and format == "parquet":
        return
    content = content.encode() if isinstance(content, str) else content()
    for named in ("auto", format):
        of = reader(format=named, **parameters)
        instances = read_with(of, tmp_path / "a", gzip.compress(content) if packed else content)
        assert words(instances) == WORDS
        assert labels_of(instances) == ["bad", "good", "good"]


def test_a_folder_or_a_file_for_each_class(tmp_path, caplog):
    for label, texts in (("good", ["x y\n\nz", "u"]), ("bad", ["v w"]), ("unsup", ["none"])):
        (tmp_path / "folders" / label).mkdir(parents=True)
        for i, text in enumerate(texts):
            (tmp_path / "folders" / label / f"{i}.txt").write_text(text)
    for named in ("auto", "class_folders"):
        instances = list(reader(format=named, label="label").read(str(tmp_path / "folders")))
        assert words(instances) == [["v", "w"], ["x", "y", "z"], ["u"]]
        assert labels_of(instances) == ["bad", "good", "good"]
        assert "1 files left out" in caplog.text
        assert "unsup/0.txt" in caplog.text
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "rt.bad").write_text("v w\n\n")
    (tmp_path / "files" / "good.txt").write_text("x y\nz\n")
    (tmp_path / "files" / "bow.feat").write_text("On the texts.\n")
    for named in ("auto", "class_files"):
        instances = list(reader(format=named, label="label").read(str(tmp_path / "files")))
        assert words(instances) == [["x", "y"], ["z"], ["v", "w"]]
        assert labels_of(instances) == ["good", "good", "bad"]
        assert mentions(caplog.text, "1 files left out", "files/bow.feat")


def test_texts_without_columns(tmp_path):
    of = reader(format="text", label=None, tokenizer="characters")
    assert words(read_with(of, tmp_path / "a", ' One "l",\n\n \nA\tb\n')) == [list('One"l",'), ["A", "b"]]
    of = reader(format="document", label=None)
    assert words(read_with(of, tmp_path / "b", "\ufeff One.\r\n\nTwo.\n")) == [["One.", "Two."]]


SEVERAL = [["sport", "home"], [], ["home"]]


@pytest.mark.parametrize(
    ("parameters", "records"),
    [
        ({"several_labels": True}, [{"class": labels} for labels in SEVERAL]),
        ({"several_labels": "|"}, [{"class": " | ".join(labels)} for labels in SEVERAL]),
        (
            {"label": ["home", "sport"]},
            [{"home": int("home" in labels), "sport": float("sport" in labels)} for labels in SEVERAL],
        ),
    ],
)
def test_several_labels(tmp_path, parameters, records):
    data = tmp_path / "a.jsonl"
    data.write_text(json_lines([{"text": "Go home", **record} for record in records]))
    instances = list(reader(format="json", classes=["home", "sport"], **parameters).read(str(data)))
    assert [sorted(instance["label"].labels) for instance in instances] == [sorted(each) for each in SEVERAL]
    vocab = Vocabulary.from_instances(instances)
    for instance in instances:
        instance.index_fields(vocab)
    assert instances[0].as_tensor_dict()["label"].tolist() == [1, 1]
    assert instances[2].as_tensor_dict()["label"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("parameters", "record", "parts"),
    [
        ({"several_labels": True}, {"class": "home"}, ["'class'", "several_labels"]),
        ({"several_labels": True}, {"class": ["home", "art"]}, ["'art'", "home, sport"]),
        ({"label": ["home", "sport"]}, {"home": 1, "sport": 2}, ["'2'", "'sport'"]),
    ],
)
def test_bad_lists_of_labels(tmp_path, parameters, record, parts):
    data = tmp_path / "a.jsonl"
    data.write_text(json_lines([{"text": "Go home", **record}]))
    with pytest.raises(ConfigurationError) as caught:
        list(reader(format="json", classes=["home", "sport"], **parameters).read(str(data)))
    assert mentions(str(caught.value), "line 1", *parts)
