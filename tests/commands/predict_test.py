"""`allennlp elmo predict` without an engine."""

import json
from pathlib import Path

from elmo_tasks.paths import bundled
from tests.sst.archives import write_archive


def test_a_line_for_each(elmo, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    archive, source = write_archive(tmp_path / "run"), bundled("fixtures/sst/predict.jsonl").resolve()
    assert elmo("predict", archive, source, "out", "--batch-size", 2) == 0
    assert "prediction" not in capsys.readouterr().out
    results = Path("out").read_text()
    assert len(results.splitlines()) == len(source.read_text().splitlines())
    assert {"tokens", "label", "probabilities"} <= set(json.loads(results.splitlines()[0]))
    assert elmo("predict", archive, source, "out") == 1
    assert "out exists; --force overwrites it" in capsys.readouterr().err
    assert elmo("predict", archive, source, "out", "--force", "--batch-size", 2) == 0
    assert Path("out").read_text() == results
