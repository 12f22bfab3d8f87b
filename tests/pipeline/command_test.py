import csv
import json
import os
import sys
import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.pipeline.command import get_predictor, predict_file
from tests.errors import error_of, mentions
from tests.pipeline.archives import predictor_of
from tests.pipeline.fake import Doubling
from tests.records import json_lines, parquet


def test_an_input_that_is_not_there_suggests_a_neighbour_and_leaves_no_output(tmp_path):
    (tmp_path / "in.jsonl").touch()
    with pytest.raises(FileNotFoundError, match=r"did you mean '.*/in\.jsonl'"):
        predict_file(None, str(tmp_path / "inn.jsonl"), str(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("kind", ["standard input", "named pipe"])
def test_a_slow_pipe_is_answered_at_once(tmp_path, monkeypatch, kind):
    """Also the last line before a blank one, and the one without an end."""
    out, fifo = tmp_path / "out", tmp_path / "fifo"
    if kind == "named pipe":
        os.mkfifo(fifo)
    ends = [] if kind == "named pipe" else os.pipe()
    monkeypatch.setattr(sys, "stdin", os.fdopen(ends[0]) if ends else None)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(predict_file, Doubling(), "-" if ends else str(fifo), str(out))
        with open(ends[1] if ends else fifo, "wb", buffering=0) as pipe:
            for written, count in ((b'{"text": "a"}\n', 1), (b'{"text": "b"}\n' * 3 + b'\n\n{"te', 4)):
                pipe.write(written)
                wait_for(lambda count=count: out.exists() and out.read_text().count("\n") == count)
            pipe.write(b'xt": "cc"}')
        done.result(10)
    assert out.read_text() == '{"doubled": 2}\n' * 4 + '{"doubled": 4}\n'


def wait_for(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("size", [0, -1])
def test_batches_of_no_line(tmp_path, size):
    (tmp_path / "out").write_text("old")
    with pytest.raises(ElmoError, match="--batch-size"):
        predict_file(None, "in", str(tmp_path / "out"), batch_size=size)
    assert (tmp_path / "out").read_text() == "old"


PAIR = {"sentence1": "Two cats sleep.", "sentence2": "They dream."}
PASSAGE = {"context": "Ada kept 14 bees and one cat."}
RECORDS = {
    "snli": [
        PAIR | {"gold_label": "neutral", "pairID": "a"},
        PAIR | {"gold_label": "-", "pairID": "b"},
        PAIR | {"pairID": "c"},
        PAIR | {"sentence1": " ", "pairID": "d"},
    ],
    "mrpc": [
        {"#1 String": "x y", "#2 String": "z", "Quality": "1", "idx": 0},
        {"#1 String": "x y", "#2 String": "z", "idx": 1},
        {"#1 String": "", "#2 String": "z", "idx": 2},
    ],
    "squad": [
        PASSAGE | {"id": "a", "question": "Who?", "answers": {"text": ["Ada"], "answer_start": [0]}},
        PASSAGE | {"id": "b", "question": "Why?", "answers": {"text": [], "answer_start": []}},
        PASSAGE | {"id": "c", "question": "Where?"},
        PASSAGE | {"id": "d", "question": " "},
    ],
}


@pytest.mark.parametrize("batch_size", [None, 1])
@pytest.mark.parametrize("task", RECORDS)
def test_each_record_of_a_dataset_has_a_line(tmp_path, task, batch_size):
    """Without a label or an answer, too; the last of each has no words, and says so."""
    predictor = predictor_of(task)
    if task == "mrpc":
        predictor._dataset_reader.format = "jsonl"
    (tmp_path / "in").write_text(json_lines(*RECORDS[task]))
    files = [str(tmp_path / name) for name in ("in", "out")]
    predict_file(predictor, *files, batch_size=batch_size, by_reader=True)
    *predicted, last = map(json.loads, (tmp_path / "out").read_text().splitlines())
    key = {"snli": "pairID", "mrpc": "idx", "squad": "id"}[task]
    assert [line[key] for line in [*predicted, last]] == [record[key] for record in RECORDS[task]]
    assert all(line["answer" if task == "squad" else "label"] for line in predicted)
    assert set(last) == {key, "no_prediction"}
    assert f"in, line {len(RECORDS[task])}" in last["no_prediction"]


@pytest.mark.parametrize("reads_dataset", [False, True])
@pytest.mark.parametrize(
    ("task", "read", "of_dataset"),
    [
        ("agnews", {"sentence": "Oil falls"}, {"description": "Oil falls"}),
        ("ner", {"tokens": ["Oil", "falls"]}, {"text": "Oil falls"}),
        ("srl", {"tokens": ["Oil", "falls"], "predicates": [1]}, {}),
        ("coref", {"sentences": [["Oil", "falls"]]}, {}),
        (
            "squad",
            {"passage": "Oil falls", "question": "What?"},
            {"context": "Oil falls", "question": "What?"},
        ),
    ],
)
def test_ids_and_short_fields_that_are_not_read_are_repeated(tmp_path, task, read, of_dataset, reads_dataset):
    predictor, files = predictor_of(task), [str(tmp_path / name) for name in ("in.jsonl", "out")]
    read = of_dataset if reads_dataset and of_dataset else read
    repeated = {"id": "long " * 20, "doc_key": "nw/1", "document_id": 7, "ticket": "T-1"}
    (tmp_path / "in.jsonl").write_text(json.dumps(read | repeated | {"address": "x" * 99, "topics": ["a"]}))
    predictor._dataset_reader.format = {"agnews": "jsonl", "ner": "json"}.get(task, "auto")
    predict_file(predictor, *files, by_reader=reads_dataset)
    line = json.loads((tmp_path / "out").read_text())
    assert line.items() >= repeated.items()
    assert line.keys().isdisjoint({"address", "topics", "text", "sentence", "description", "question"})


ROWS = [
    ("T-1", "Oil falls.", "Prices fall.", "-"),
    ("T-2", 'The "Cup", they say.', "It is won.", "-"),
    ("T-3", "It rains in Oslo today.", "It rains.", "-"),
]


def write_table(path: Path, names: list[str]) -> None:
    records = [dict(zip(names, row, strict=True)) for row in ROWS]
    if path.suffix == ".parquet":
        path.write_bytes(parquet(*records))
    elif path.suffix in (".json", ".jsonl"):
        path.write_text(json.dumps(records) if path.suffix == ".json" else json_lines(*records))
    else:
        with open(path, "w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerows(ROWS if path.stem == "headless" else [names, *ROWS])


@pytest.mark.parametrize("task", ["agnews", "mrpc", "sst", "snli", "ner", "coref", "srl"])
def test_texts_in_columns(tmp_path, task):
    """They are predicted as JSON Lines are, with the short fields that the predictor does not read."""
    predictor = predictor_of(task)
    forms, tokens = list(predictor.forms[0]), next(iter(predictor.forms[1]))
    for name in ("a.csv", "headless.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet"):
        names = ["ticket", "first", "second", tokens]
        if name == "headless.csv":
            names = [f"column{number}" for number in range(1, 5)]
        write_table(tmp_path / name, names)
        columns = names[1 : 1 + len(forms)]
        rows = [dict(zip(names, row, strict=True)) for row in ROWS]
        records = [
            {key: text for key, text in row.items() if key not in (*columns, tokens)}
            | {form: row[column] for form, column in zip(forms, columns, strict=True)}
            for row in rows
        ]
        (tmp_path / "in").write_text(json_lines(*records))
        predict_file(predictor, str(tmp_path / "in"), str(tmp_path / "expected"))
        predict_file(predictor, str(tmp_path / name), str(tmp_path / "out"), columns=columns)
        assert (tmp_path / "out").read_text() == (tmp_path / "expected").read_text()


@pytest.mark.parametrize(
    ("content", "columns", "values"),
    [
        ("text,b\nx y,\n", ["text", "b"], ("sentence",)),
        ("text,b\nx y,\n", ["texts"], ("'texts'", "text, b")),
        ('{"text": "x y"}\n{"text": null}\n', ["text"], ("line 2", "'text'", "null")),
        ('text,b\nx y,1\n"x" y,2,3\n', ["text"], ("line 3",)),
        ("x y\n", ["text"], ("x y", "table")),
    ],
)
def test_columns_that_cannot_be_predicted(tmp_path, content, columns, values):
    (tmp_path / "in").write_text(content)
    predict = partial(predict_file, predictor_of("agnews"), str(tmp_path / "in"), columns=columns)
    assert mentions(error_of(ConfigurationError, predict), *values)


HEADLESS = (
    "3,Oil,Prices of oil fell on Friday again and again.\n2,Cup,The team won the cup on Sunday at last.\n"
)


@pytest.mark.parametrize(
    ("content", "first"),
    [
        (HEADLESS, "Prices"),
        ("class,title,description\n" + HEADLESS, "Prices"),
        ("Description,n,m,k\nOil falls today,1,2,x\nThe team won,3,4,x\n", "Oil"),
        ("text,label,source\nOil falls today,,web\nThe team won,,mail\n", "Oil"),
        ("text\nOil falls today\nThe team won\n", "Oil"),
        ("review,label,source\nOil falls today,,web\nThe team won,,mail\n", None),
    ],
)
def test_files_with_a_header_for_a_reader_of_files_without_one(tmp_path, content, first):
    predictor = predictor_of("agnews")
    (tmp_path / "in.csv").write_text(content)
    predict = partial(
        predict_file, predictor, str(tmp_path / "in.csv"), str(tmp_path / "out"), by_reader=True
    )
    if first is None:
        message = error_of(ConfigurationError, predict)
        assert mentions(message, "'description'", "'review'", "'source'", "--text COLUMN")
        return
    predict()
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [line["sentence1_tokens"][0] for line in lines] == [first, "The"]


@pytest.mark.parametrize("text", ["title,description\n", '{"review": "Oil falls"}\n'])
def test_a_file_in_another_form_names_the_form(tmp_path, text):
    (tmp_path / "in").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        predict_file(predictor_of("agnews"), str(tmp_path / "in"))
    assert mentions(*caught.value.__notes__, '{"sentence": "..."}', "--use-dataset-reader")


def test_no_such_device():
    with pytest.raises(ElmoError, match=r"--cuda-device.*99"):
        get_predictor(Namespace(predictor_args="", output_file=None, cuda_device=99))
