import csv
import gzip
import json
import logging

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from allennlp.data.tokenizers import WhitespaceTokenizer

from elmo_tasks.classification import ClassificationReader
from elmo_tasks.classification.reader import read_records
from elmo_tasks.common.files import bundled
from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.tokenization import Syllables
from elmo_tasks.language_model import BiLmReader

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
    return [[token.text for token in instance[field]] for instance in instances]


def labels(instances):
    return [instance["label"].label for instance in instances]


def read(path, content, of):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(of.read(str(path)))


def as_tsv(rows):
    return "\n".join(map("\t".join, rows)) + "\n"


TSV = as_tsv([COLUMNS, *ROWS])


def test_instances(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        instances = read(tmp_path / "a", TSV, reader())
    assert words(instances) == WORDS
    assert labels(instances) == ["bad", "good", "good"]
    assert f"{tmp_path / 'a'}: 3 instances (good 2, bad 1)" in caplog.text


def test_text_to_pretrain_on(tmp_path, caplog):
    of = reader(format="text", label=None)
    with caplog.at_level(logging.INFO):
        instances = read(tmp_path / "a", 'One "line".\n\nAnother\tone\n', of)
    assert words(instances) == [["One", '"line".'], ["Another", "one"]]
    assert "label" not in instances[0].fields
    assert "2 instances (no labels)" in caplog.text


def test_several_columns_are_one_text(tmp_path):
    of = reader(format="csv", columns=["class", "title", "text"], sentence1=["title", "text"])
    instances = read(tmp_path / "a", "good,Rain,It rains\nbad,,Sun\n", of)
    assert words(instances) == [["Rain", "It", "rains"], ["Sun"]]


def test_pairs(tmp_path):
    of = pair_reader(label_names={"0": "bad", "1": "good"})
    (instance,) = read(tmp_path / "a", 'c\ta\tb\n1\tsome "words" here\tx\n', of)
    assert words([instance]) == [["some", '"words"', "here"]]
    assert words([instance], "sentence2") == [["x"]]
    assert instance["label"].label == "good"
    assert len(instance["metadata"]) == 3


def test_labels_are_names_or_numbers_and_their_order_is_that_of_the_classes(tmp_path):
    content = '[{"text": "x", "class": 1}, {"text": "y", "class": "1"}, {"text": "z", "class": true}]'
    of = reader(format="json", classes=["C", "B", "A"], label_names={"1": "A", "true": "B", "0": "C"})
    instances = read(tmp_path / "a", content, of)
    assert labels(instances) == ["A", "A", "B"]
    vocab = Vocabulary.from_instances(instances)
    assert list(vocab.get_token_to_index_vocabulary("labels")) == ["C", "B", "A"]


@pytest.mark.parametrize(
    ("content", "parameters", "expected"),
    [
        ("", {}, ": found no record, expected at least one"),
        ("text\tclass\n", {}, ": found no record, expected at least one"),
        ("text\tkind\nx\ty\n", {}, ", line 2: found the columns 'text', 'kind', expected also 'class'"),
        ("text\tclass\n\nx\tgood\nx\tGood\n", {}, ", line 4: found the label 'Good' in the column 'class'"),
        ("text\tclass\n \tgood\n", {}, ", line 2: found no words in the column 'text'"),
        (
            'text,class\n"two\nlines",good\nx,worse\n',
            {"format": "csv"},
            ", line 4: found the label 'worse' in the column 'class', expected one of good, bad",
        ),
        (
            '{"text": "x", "class": "good"}\n{"text": "x", "class": null}\n',
            {"format": "jsonl"},
            ", line 2: found the label 'null' in the column 'class'",
        ),
        ('{"text": "x"}\n', {"format": "jsonl"}, ", line 1: found the columns 'text', expected also 'class'"),
        (
            '[\n{"text": "x",\n"class": "good"},\n\n{"text": 5, "class": "good"}]',
            {"format": "json"},
            ", line 5: found 5 in the column 'text', expected text",
        ),
    ],
)
def test_errors_name_line_and_column(tmp_path, content, parameters, expected):
    with pytest.raises(InputError) as error:
        read(tmp_path / "data", content, reader(**parameters))
    assert str(error.value).startswith(f"{tmp_path / 'data'}{expected}")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"format": "xml"}, "format is 'xml', expected one of csv, tsv, json, jsonl, text"),
        ({"format": "json", "columns": ["text"]}, "found columns, but json"),
        ({"format": "csv", "columns": ["text", "text"]}, "columns: found text, text"),
        ({"classes": ["one"]}, "classes: found ['one']"),
        ({"classes": ["one", "one"]}, "classes: found ['one', 'one']"),
        ({"label_names": {"0": "good", "1": "bed"}}, "label_names: found names of good, bed"),
    ],
)
def test_impossible_parameters(parameters, message):
    with pytest.raises(ConfigurationError) as error:
        reader(**parameters)
    assert message in str(error.value)
    misspelt = {"type": "elmo_classifier", "format": "csv", "sentence": "text"}
    with pytest.raises(ConfigurationError, match="'sentence'; did you mean 'sentence"):
        DatasetReader.from_params(Params(misspelt))


@pytest.mark.parametrize(
    ("of", "sentences", "message"),
    [
        (reader(), ("a", "b"), "found a pair, expected one sentence"),
        (pair_reader(), ("a",), "found one sentence, expected a pair"),
        (pair_reader(), ("a", " "), "found a sentence without words"),
        (reader(), ("a", None, "ugly"), "found the label 'ugly', expected one of good, bad"),
    ],
)
def test_text_to_instance(of, sentences, message):
    with pytest.raises(ConfigurationError, match=message):
        of.text_to_instance(*sentences)


def test_workers_share_the_instances(tmp_path):
    (tmp_path / "a").write_text(TSV)
    shares = []
    for rank in range(2):
        of = reader()
        of._set_worker_info(WorkerInfo(2, rank))
        shares.append(words(of.read(str(tmp_path / "a"))))
    assert shares == [WORDS[::2], WORDS[1::2]]


def test_pretraining_reads_the_same_words():
    """A task's reader block is the source of pre-training, tokenizer included."""
    block = Params.from_file(str(bundled("training_configs/klue_tc.jsonnet")))["dataset_reader"].as_dict()
    block["tokenizer"] = "elmo_syllables"
    task = DatasetReader.from_params(Params(dict(block)))
    assert isinstance(task.tokenizer, Syllables)
    bilm = DatasetReader.from_params(
        Params(
            {
                "type": "elmo_bilm",
                "source": block,
                "streams": 1,
                "passage": 1,
                "bptt_steps": None,
                "shuffle_buffer": 0,
            }
        )
    )
    assert isinstance(bilm, BiLmReader)
    file = bundled("fixtures/classification/klue_tc/dev.json")
    blocks = [instance["block"].human_readable_repr()["forward"][1:] for instance in bilm.read(str(file))]
    assert blocks == words(task.read(str(file)))
    assert len(blocks) == 28


def test_petitions_as_documents_and_as_json_lines(tmp_path):
    config = str(bundled("training_configs/petitions_bilm.jsonnet"))
    order = {
        "dataset_reader.shuffle_buffer": 0,
        "dataset_reader.bptt_steps": None,
        "dataset_reader.streams": 1,
    }
    as_jsonl = {
        "dataset_reader.source.format": "jsonl",
        "dataset_reader.source.sentence1": ["title", "content"],
    }
    folder = bundled("fixtures/classification/petitions/dev")
    petitions = [file.read_text(encoding="utf-8").partition("\n\n") for file in sorted(folder.iterdir())]
    records = [{"title": title, "content": content} for title, _, content in petitions]
    file = tmp_path / "petitions.jsonl"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    forward = [
        [
            instance["block"].human_readable_repr()["forward"][1:]
            for instance in DatasetReader.from_params(
                Params.from_file(config, json.dumps(order | changes))["dataset_reader"]
            ).read(str(path))
        ]
        for path, changes in ((folder, {}), (file, as_jsonl))
    ]
    assert forward[0] == forward[1]
    assert len(forward[0]) == 2
    assert forward[0][0][:6] == ["놀", "이", "터", "의", "낡", "은"]


def records_of(path, content, format, columns=None):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_records(path, format, columns))


def as_csv(rows):
    return "".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\n" for row in rows)


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
def test_records_of_all_formats(tmp_path, content, format, columns, lines):
    for name, packed in (("a", content.encode()), ("a.gz", gzip.compress(content.encode()))):
        records = records_of(tmp_path / name, packed, format, columns)
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
    assert [
        record.values for record in records_of(tmp_path / "a", json.dumps(values, indent=1), "json")
    ] == values


def test_text_has_one_column(tmp_path):
    assert records_of(tmp_path / "a", ' One "line",\n\n \nAnother\tone\n', "text") == [
        (1, {"text": ' One "line",'}),
        (4, {"text": "Another\tone"}),
    ]


def test_a_document_is_a_file(tmp_path):
    assert records_of(tmp_path / "a", "\ufeff One.\r\n\nTwo.\n", "document") == [
        (1, {"text": " One.\n\nTwo."})
    ]


@pytest.mark.parametrize(
    ("format", "content"),
    [("csv", "a,b\n"), ("tsv", ""), ("json", "[]"), ("jsonl", "\n"), ("document", " \n\n")],
)
def test_no_record(tmp_path, format, content):
    assert records_of(tmp_path / "a", content, format) == []


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
        ("jsonl", "[1]\n", ", line 1: found 1, expected a JSON object"),
        ("json", '[{},\n{"a": }]', ", line 2: found no JSON (Expecting value, column 7), expected JSON"),
        ("json", '[{},\n{}, "x"\n]', ', line 2: found "x", expected a JSON object'),
        (
            "tsv",
            b"text\tclass\nx\xff\tgood\n",
            ", line 2: found the byte 0xff at offset 12, expected UTF-8; ",
        ),
    ],
)
def test_errors_of_formats_name_the_line(tmp_path, format, content, expected):
    with pytest.raises(InputError) as caught:
        records_of(tmp_path / "data", content, format)
    assert str(caught.value).startswith(f"{tmp_path / 'data'}{expected}")
