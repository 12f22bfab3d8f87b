import json

import pytest

from elmo_tasks.ner import show


def test_scores_and_three_predictions(tmp_path, capsys):
    metrics = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "accuracy": 0.987, "loss": 1.0}
    metrics |= {f"{name}-PER": 0.5 for name in ("precision", "recall", "f1")}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    entity = {"type": "PER", "text": "Zoë", "probability": 0.876}
    predictions = [{"tokens": [str(i), "Zoë"], "entities": [entity][:i]} for i in range(5)]
    (tmp_path / "out.jsonl").write_text("\n".join(map(json.dumps, predictions)))
    show.main([str(tmp_path / "metrics.json"), str(tmp_path / "out.jsonl")])
    printed = capsys.readouterr().out
    assert "all      50.00      25.00      33.33" in printed
    assert "token accuracy 98.70" in printed
    assert "no entity" in printed
    assert "PER    Zoë  (0.88)" in printed
    assert "2 Zoë" in printed
    assert "3 Zoë" not in printed


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("metrics.json", "{", "metrics.json, line 1"),
        ("metrics.json", '{"accuracy": 1}', "metrics.json: found other JSON, expected metrics of elmo_ner"),
        (
            "out.jsonl",
            '{"tokens": []}',
            "out.jsonl, line 1: found other JSON, expected a prediction of elmo_ner",
        ),
        ("out.jsonl", None, "out.jsonl"),
    ],
)
def test_files_of_something_else(tmp_path, file, content, expected):
    scores = dict.fromkeys(("precision", "recall", "f1", "accuracy"), 0.5)
    (tmp_path / "metrics.json").write_text(json.dumps(scores))
    (tmp_path / "out.jsonl").write_text("")
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(content)
    with pytest.raises(SystemExit, match=expected):
        show.main([str(tmp_path / "metrics.json"), str(tmp_path / "out.jsonl")])
