import json
import logging

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from allennlp.data.tokenizers import WhitespaceTokenizer

from elmo_tasks.classification import ClassificationReader
from elmo_tasks.common.files import bundled
from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.tokenization import Syllables
from elmo_tasks.language_model import BiLmReader

RECORDS = [
    {"id": "1", "text": 'He said "no", twice.', "class": "bad"},
    {"id": "2", "text": "Fine; wine's 3,50.", "class": "good"},
    {"id": "3", "text": "좋은 하루", "class": "good"},
]
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


def error_of(tmp_path, content, of):
    with pytest.raises(InputError) as error:
        read(tmp_path / "data", content, of)
    return str(error.value).removeprefix(str(tmp_path / "data"))


def as_tsv(header):
    rows = ["\t".join(record.values()) for record in RECORDS]
    return "\n".join(["\t".join(RECORDS[0]), *rows] if header else rows) + "\n"


@pytest.mark.parametrize(
    ("content", "parameters"),
    [
        (as_tsv(True), {"format": "tsv"}),
        (as_tsv(False), {"format": "tsv", "columns": list(RECORDS[0])}),
        (json.dumps(RECORDS), {"format": "json"}),
    ],
)
def test_formats(tmp_path, content, parameters):
    instances = read(tmp_path / "a", content, reader(**parameters))
    assert words(instances) == WORDS
    assert labels(instances) == ["bad", "good", "good"]


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


def test_counts_are_logged(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        read(tmp_path / "a", as_tsv(True), reader())
    assert f"{tmp_path / 'a'}: 3 instances (good 2, bad 1)" in caplog.text


@pytest.mark.parametrize(
    ("content", "parameters", "expected"),
    [
        ("", {}, ": found no record, expected at least one"),
        ("text\tclass\n", {}, ": found no record, expected at least one"),
        ("text\tkind\nx\ty\n", {}, ", line 2: found the columns 'text', 'kind', expected also 'class'"),
        (
            "text\tclass\n\nx\tgood\nx\tGood\n",
            {},
            ", line 4: found the label 'Good' in the column 'class', expected one of good, bad",
        ),
        (
            "text\tclass\n \tgood\n",
            {},
            ", line 2: found no words in the column 'text', expected at least one word",
        ),
        (
            'text,class\n"two\nlines",good\nx,worse\n',
            {"format": "csv"},
            ", line 4: found the label 'worse' in the column 'class', expected one of good, bad",
        ),
        (
            '{"text": "x", "class": "good"}\n{"text": "x", "class": null}\n',
            {"format": "jsonl"},
            ", line 2: found the label 'null' in the column 'class', expected one of good, bad",
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
    assert error_of(tmp_path, content, reader(**parameters)) == expected


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"format": "xml"}, "format is 'xml', expected one of csv, tsv, json, jsonl, text"),
        ({"format": "json", "columns": ["text"]}, "found columns, but json names them itself"),
        (
            {"format": "csv", "columns": ["text", "text"]},
            "columns: found text, text, expected each name once",
        ),
        ({"classes": ["one"]}, "expected two names or more, each once"),
        ({"classes": ["one", "one"]}, "expected two names or more, each once"),
        ({"label_names": {"0": "good", "1": "bed"}}, "found names of good, bed, expected of good, bad"),
    ],
)
def test_impossible_parameters(parameters, message):
    with pytest.raises(ConfigurationError) as error:
        reader(**parameters)
    assert message in str(error.value)


def test_misspelt_parameter():
    parameters = {"type": "elmo_classifier", "format": "csv", "sentence": "text"}
    with pytest.raises(ConfigurationError, match="unknown key 'sentence'; did you mean 'sentence"):
        DatasetReader.from_params(Params(parameters))


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
    (tmp_path / "a").write_text(as_tsv(True))
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
