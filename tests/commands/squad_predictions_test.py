import json
from pathlib import Path

import pytest
from allennlp.commands.evaluate import evaluate_from_archive

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


def test_an_ensemble(elmo, run, tmp_path):
    write_run(tmp_path / "second", seed=1)
    ensemble = tmp_path / "ensemble.tar.gz"
    assert elmo("ensemble", run, tmp_path / "second", "-o", ensemble) == 0
    found = {}
    for name, archive in (("one", run), ("other", tmp_path / "second"), ("both", ensemble)):
        assert elmo("squad-predictions", archive, DEV, tmp_path / name) == 0
        found[name] = json.loads((tmp_path / name).read_text())
    assert len(found["both"]) == 16
    assert found["one"] != found["other"]
    metrics = evaluate_from_archive(ensemble, DEV)
    expected = json.loads(report(DEV, str(tmp_path / "both")))
    assert 100 * metrics["f1"] == pytest.approx(expected["f1"])
    assert 100 * metrics["exact_match"] == pytest.approx(expected["exact_match"])


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
    assert elmo("squad-predictions", run, output, output, "--force") == 1
    assert f"{output} is the input, expected another file" in capsys.readouterr().err
    assert output.read_text() == "mine"
