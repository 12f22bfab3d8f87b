"""Results as tables: which columns they have, and what does not fit."""

import csv
import json

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.archives import open_archive
from elmo_tasks.pipeline.command import predict_file
from elmo_tasks.pipeline.trained import task_predictor
from tests.errors import mentions

SHARES = "Shares of the bank fell after the report."


@pytest.fixture(scope="module")
def topics():
    return task_predictor(open_archive("elmo:topics"))


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_table_keeps_its_columns(topics, tmp_path):
    source, output = tmp_path / "in.tsv", tmp_path / "out.csv"
    long = "a remark, with commas, " * 10
    source.write_text(f"id\ttext\tlabel\tremark\n1\t{SHARES}\tspam\t{long}\n2\tThe team won.\tham\t\n")
    predict_file(topics, str(source), str(output), columns=["text"])
    rows = read(output)
    assert list(rows[0]) == ["id", "text", "label", "remark", "predicted_label", "probability"]
    assert [row["text"] for row in rows] == [SHARES, "The team won."]
    assert (rows[0]["label"], rows[0]["remark"]) == ("spam", long.strip())
    expected = topics.predict(SHARES)
    assert rows[0]["predicted_label"] == expected["label"]
    assert float(rows[0]["probability"]) == pytest.approx(max(expected["probabilities"].values()), abs=1e-5)


def test_json_and_a_reader(topics, tmp_path):
    source, output = tmp_path / "in.jsonl", tmp_path / "out.tsv"
    source.write_text(json.dumps({"id": 7, "sentence": SHARES}) + "\n")
    predict_file(topics, str(source), str(output))
    assert output.read_text().startswith("id\tsentence\tlabel\tprobability\n7\t")
    source.write_text(json.dumps({"id": 7, "sentence": SHARES}) + '\n{"sentence": "Rain.", "when": "May"}\n')
    with pytest.raises(ConfigurationError) as caught:
        predict_file(topics, str(source), str(output))
    assert mentions(str(caught.value), "out.tsv", "record 2", "when")
    assert len(output.read_text().splitlines()) == 2
    table = tmp_path / "in.csv"
    table.write_text(f'3,"A title","{SHARES}"\n1,"",""\n2,Rain,Rain fell.\n')
    predict_file(topics, str(table), str(output), by_reader=True)
    rows = list(csv.DictReader(output.read_text().splitlines(), delimiter="\t"))
    assert [bool(row["label"]) for row in rows] == [True, False, True]
    assert [bool(row["no_prediction"]) for row in rows] == [False, True, False]


def test_a_reader_keeps_the_columns(topics, tmp_path):
    """Also if the first record has no words, and so no prediction."""
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(f'class,title,description\n1,Empty,""\n3,Shares,"{SHARES}"\n')
    predict_file(topics, str(source), str(output), by_reader=True)
    rows = read(output)
    header = ["class", "title", "description", "no_prediction", "label", "probability"]
    assert list(rows[0]) == header
    assert [(row["class"], row["description"]) for row in rows] == [("1", ""), ("3", SHARES)]
    assert [row["label"] for row in rows] == ["", topics.predict(SHARES)["label"]]
    labelled = {"description": SHARES, "label": "Business", "cats": {"Business": 1.0, "World": 0.0}}
    source.write_text(json.dumps(labelled) + "\n")
    overrides = '{"dataset_reader.format": "json", "dataset_reader.columns": null}'
    of_json = task_predictor(open_archive("elmo:topics", overrides=overrides))
    predict_file(of_json, str(source), str(output), by_reader=True)
    (row,) = read(output)
    assert (row["label"], json.loads(row["cats"])) == ("Business", labelled["cats"])
    assert row["predicted_label"] == topics.predict(SHARES)["label"]


def test_a_column_that_the_results_have_too(topics, tmp_path):
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(f"text,label,predicted_label\n{SHARES},spam,ham\n")
    with pytest.raises(ConfigurationError) as caught:
        predict_file(topics, str(source), str(output), columns=["text"])
    assert mentions(str(caught.value), "out.csv", "'predicted_label'", ".jsonl")
    source.write_text(f"text,predicted_label\n{SHARES},ham\n")
    predict_file(topics, str(source), str(output), columns=["text"])
    assert list(read(output)[0]) == ["text", "predicted_label", "label", "probability"]


def test_a_row_without_a_prediction(tmp_path):
    """Its gold label is not taken for one, and a column with the name of the reason is not lost."""
    columns = {"sentence1": "text", "label": "label", "columns": None}
    overrides = json.dumps({f"dataset_reader.{key}": value for key, value in columns.items()})
    predictor = task_predictor(open_archive("elmo:topics", overrides=overrides))
    source, lines, table = (tmp_path / name for name in ("in.csv", "out.jsonl", "out.CSV"))
    source.write_text(f'text,label\n{SHARES},Business\n"",Sports\n')
    predict_file(predictor, str(source), str(lines), by_reader=True)
    record = json.loads(lines.read_text().splitlines()[1])
    assert "no_prediction" in record
    assert "label" not in record
    predict_file(predictor, str(source), str(table), by_reader=True)
    assert [row["label"] for row in read(table)] == ["Business", "Sports"]
    assert [row["predicted_label"] for row in read(table)] == ["Business", ""]
    source.write_text(f"text,no_prediction\n{SHARES},keep\n")
    with pytest.raises(ConfigurationError) as caught:
        predict_file(predictor, str(source), str(table), by_reader=True)
    assert "'no_prediction'" in str(caught.value)


def test_no_class_has_the_probability(tmp_path):
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(f"id,text\n1,{SHARES}\n2,\n")
    predictor = task_predictor(open_archive("elmo:topics"), min_probability=0.99)
    predict_file(predictor, str(source), str(output), columns=["text"])
    unsure, empty = read(output)
    likeliest = max(predictor.predict(SHARES)["probabilities"].values())
    assert (unsure["label"], float(unsure["probability"])) == ("", pytest.approx(likeliest, abs=1e-5))
    assert (empty["label"], empty["probability"]) == ("", "")


def test_entities_of_a_reader(tmp_path):
    source, output = tmp_path / "in.jsonl", tmp_path / "out.csv"
    records = [{"id": 1, "text": "Anna Silva sings."}, {"id": 2, "text": ""}, {"id": 3, "text": "It rains."}]
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    predictor = task_predictor(open_archive("elmo:ner", overrides='{"dataset_reader.format": "json"}'))
    predict_file(predictor, str(source), str(output), by_reader=True)
    rows = read(output)
    assert [(row["record"], row["id"], row["entity"]) for row in rows] == [
        ("1", "1", "Anna Silva"),
        ("2", "2", ""),
    ]
    assert [bool(row["no_prediction"]) for row in rows] == [False, True]


def test_an_answer_is_a_row(tmp_path):
    source, output = tmp_path / "in.jsonl", tmp_path / "out.csv"
    passage = {"passage": "The bridge was opened in 2018.", "question": "When was the bridge opened?"}
    source.write_text(json.dumps(passage) + "\n")
    predict_file(task_predictor(open_archive("elmo:squad")), str(source), str(output))
    (row,) = read(output)
    assert (row["question"], row["answer"], row["char_start"]) == (passage["question"], "2018", "25")


def test_clusters_do_not_fit(tmp_path):
    source, output = tmp_path / "in.jsonl", tmp_path / "out.csv"
    source.write_text('{"document": "Ana sings."}\n')
    output.write_text("of before")
    with pytest.raises(ConfigurationError, match=r"coref .*\.jsonl"):
        predict_file(task_predictor(open_archive("elmo:coref")), str(source), str(output))
    assert output.read_text() == "of before"
