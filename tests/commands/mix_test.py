import csv

import numpy as np
import pytest

from elmo_tasks.commands import mix
from tests.evaluation.archives import make_run


def test_mixes_of_several_archives(elmo, tmp_path, capsys):
    scores = {"input": [0.0, 1.0, -2.0], "output": [3.0, 0.0, 0.5]}
    both = make_run(tmp_path / "both", scores, placement="input+output")
    function = make_run(tmp_path / "function", {}, weights="function", gamma=False)
    assert elmo("mix", both, function, "-o", tmp_path / "mix.csv") == 0
    rows = list(csv.DictReader((tmp_path / "mix.csv").open()))
    assert [row["archive"] for row in rows] == [str(both), str(both), str(function)]
    for row, (placement, given) in zip(rows, scores.items(), strict=False):
        assert row["placement"] == placement
        assert row["weights"] == "trainable"
        assert float(row["gamma"]) == 1.5
        shares = [float(row[f"layer {layer}"]) for layer in range(3)]
        assert shares == pytest.approx(np.exp(given) / np.exp(given).sum())
    assert rows[2]["weights"] == "function"
    assert [rows[2][f"layer {layer}"] for layer in range(3)] == ["", "", ""]
    assert float(rows[2]["gamma"]) == 1.0


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        (["one"], ["elmo_ner, input", "elmo_ner, output"]),
        (["one", "two"], ["one: elmo_ner, input", "one: elmo_ner, output", "two: elmo_ner, input"]),
    ],
)
def test_a_row_of_the_picture_says_whose_it_is(elmo, tmp_path, names, rows, monkeypatch):
    shown = []
    draw = mix.heat_map
    monkeypatch.setattr(
        mix, "heat_map", lambda *args, rows, **more: shown.extend(rows) or draw(*args, rows=rows, **more)
    )
    placements = {"one": "input+output", "two": "input"}
    runs = [make_run(tmp_path / name, {}, placement=placements[name]) for name in names]
    assert elmo("mix", *runs) == 0
    assert shown == rows


def test_errors(elmo, tmp_path, capsys):
    baseline = make_run(tmp_path / "baseline", None)
    assert elmo("mix", baseline) == 1
    assert "baseline: found a model without ELMo, elmo_ner" in capsys.readouterr().err
    (tmp_path / "broken.tar.gz").write_text("no archive")
    assert elmo("mix", tmp_path / "broken.tar.gz") == 1
    assert "broken.tar.gz: not a whole archive of a model" in capsys.readouterr().err
    assert elmo("mix", tmp_path / "nowhere") == 1
    assert "nowhere" in capsys.readouterr().err
