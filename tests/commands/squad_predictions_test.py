import json
from pathlib import Path

import pytest

from elmo_tasks.squad.score import report
from tests.squad.archives import DEV, UNANSWERABLE, write_run


@pytest.fixture
def run(tmp_path):
    write_run(tmp_path / "run")
    return tmp_path / "run"


def test_the_official_format(elmo, run, tmp_path, capsys):
    output = tmp_path / "out/predictions.json"
    assert elmo("squad-predictions", run, DEV, output, "--batch-size", "6") == 0
    assert capsys.readouterr().out == f"{output}: 16 answers\n"
    predictions = json.loads(output.read_text())
    assert list(predictions) == [f"dev-{number:03d}" for number in range(1, 17)]
    passages = {
        question["id"]: paragraph["context"]
        for article in json.loads(Path(DEV).read_text(encoding="utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }
    assert all(answer and answer in passages[id] for id, answer in predictions.items())
    assert set(json.loads(report(DEV, str(output)))) == {"exact_match", "f1"}


def test_questions_without_answers(elmo, run, tmp_path):
    output = tmp_path / "predictions.json"
    assert elmo("squad-predictions", run, UNANSWERABLE, output) == 0
    assert len(json.loads(output.read_text())) == 14


def test_what_cannot_be_done(elmo, run, tmp_path, capsys):
    output = tmp_path / "predictions.json"
    output.write_text("mine")
    assert elmo("squad-predictions", run, DEV, output) == 1
    assert capsys.readouterr().err == f"error: {output} exists; --force overwrites it\n"
    assert elmo("squad-predictions", run, tmp_path / "nothing", output, "--force") == 1
    assert "nothing: found no file" in capsys.readouterr().err
    assert output.read_text() == "mine"
    assert not (tmp_path / "predictions.json.partial").exists()
