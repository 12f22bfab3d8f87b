import json

import pytest
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.models.archival import archive_model, load_archive
from allennlp.predictors import Predictor
from sklearn.metrics import confusion_matrix

from elmo_tasks.common.files import bundled
from tests.language_model.archives import TEXT
from tests.language_model.archives import write_run as write_language_model
from tests.sst.archives import write_archive

DEV = bundled("fixtures/sst/dev.txt")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return write_archive(tmp_path_factory.mktemp("archive") / "run")


def predicted(archive):
    """Gold and predicted labels of DEV, one sentence at a time."""
    predictor = Predictor.from_path(str(archive))
    instances = list(predictor._dataset_reader.read(str(DEV)))
    gold = [instance["label"].label for instance in instances]
    return gold, [predictor.predict_instance(instance)["label"] for instance in instances]


def test_table_and_picture(elmo, archive, tmp_path, capsys):
    picture = tmp_path / "confusion.png"
    assert elmo("confusion", archive, DEV, picture) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [picture]
    shown = capsys.readouterr().out
    rows = [line.strip("| ").split(" | ") for line in shown.splitlines() if line.startswith("|")]
    assert rows[0] == ["gold", "as 0", "as 1", "as 2", "as 3", "as 4", "precision", "recall", "f1"]
    matrix = confusion_matrix(*predicted(archive), labels=list("01234"))
    assert [row[:6] for row in rows[2:]] == [
        [label, *map(str, row)] for label, row in zip("01234", matrix.tolist(), strict=True)
    ]
    metrics = evaluate_from_archive(archive, str(DEV))
    assert f"accuracy {metrics['accuracy']:.4f}, macro F1 {metrics['macro_f1']:.4f}" in shown
    assert shown.endswith(f"\n{picture}: the shares of 5 classes\n")
    # The matrix is among the metrics that `allennlp evaluate` writes, too.
    assert metrics["confusion-4-0"] == matrix[4, 0]
    assert json.loads(json.dumps(metrics)) == metrics


def test_an_ensemble(elmo, archive, tmp_path, capsys):
    other = write_archive(tmp_path / "other", seed=1)
    both = tmp_path / "both.tar.gz"
    assert elmo("ensemble", archive, other, "-o", both) == 0
    capsys.readouterr()
    assert elmo("confusion", both, DEV, tmp_path / "confusion.svg") == 0
    metrics = evaluate_from_archive(both, str(DEV))
    assert f"accuracy {metrics['accuracy']:.4f}" in capsys.readouterr().out


def test_the_words_of_a_bilm(elmo, tmp_path, capsys):
    write_language_model(tmp_path / "run", frequent_words=3)
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    archive = archive_model(tmp_path / "run")
    assert elmo("confusion", archive, text, tmp_path / "words.png") == 0
    shown = capsys.readouterr().out
    rows = [line.strip("| ").split(" | ") for line in shown.splitlines() if line.startswith("|")]
    metrics = evaluate_from_archive(archive, str(text))
    labels = ["</S>", "the", "cat", "other words"]
    assert rows[0] == ["gold", *(f"as {label}" for label in labels), "precision", "recall", "f1"]
    assert [row[:5] for row in rows[2:]] == [
        [gold, *(f"{metrics[f'confusion-{gold}-{label}']:.0f}" for label in labels)] for gold in labels
    ]
    assert f"macro F1 {metrics['macro_f1']:.4f}" in shown
    write_language_model(tmp_path / "plain")
    assert elmo("confusion", tmp_path / "plain", text, tmp_path / "plain.png") == 1
    assert "expected a classifier, or a biLM with frequent_words" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("confusion.txt", "confusion.txt, expected a name that ends in one of "),
        ("confusion.pgf", "confusion.pgf, expected a name that ends in one of "),
        ("confusion", "confusion, expected a name that ends in one of "),
        ("there.png/confusion.png", "Not a directory"),
        ("there.png", "there.png exists; --force overwrites it"),
    ],
)
def test_a_picture_that_cannot_be_written(elmo, tmp_path, capsys, name, message):
    """Found before the work: there is no such archive."""
    (tmp_path / "there.png").write_text("mine")
    assert elmo("confusion", tmp_path / "none.tar.gz", DEV, tmp_path / name) == 1
    assert message in capsys.readouterr().err
    assert (tmp_path / "there.png").read_text() == "mine"


def test_a_model_that_is_no_classifier(elmo, archive, tmp_path, capsys, monkeypatch):
    model = load_archive(archive).model
    assert type(model).__name__ == "SstModel"
    monkeypatch.setattr("elmo_tasks.modules.elmo_model.ClassificationMetric", lambda labels: None)
    assert elmo("confusion", archive, DEV, tmp_path / "confusion.png") == 1
    assert "found a model of the class SstModel, expected a classifier" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_data_that_cannot_be_read(elmo, archive, tmp_path, capsys):
    (tmp_path / "trees.txt").write_text("(3 (6 It))")
    assert elmo("confusion", archive, tmp_path / "trees.txt", tmp_path / "confusion.png") == 1
    assert "trees.txt, line 1: found the label '6' in column 5" in capsys.readouterr().err
