"""`allennlp elmo predict` without an engine."""

import gzip
import json
from pathlib import Path
from random import random

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.predictors import Predictor

from elmo_tasks.common.files import bundled
from elmo_tasks.pipeline.command import predict_file
from tests.commands.texts import feed_stdin
from tests.errors import mentions
from tests.pipeline.archives import write_archive


def test_a_line_for_each(elmo, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    archive, source = write_archive(tmp_path / "run"), bundled("fixtures/sst/predict.jsonl").resolve()
    output = Path("of/mine/out")
    assert elmo("predict", archive, source, output, "--batch-size", 2) == 0
    assert capsys.readouterr().out == f"{output}: {len(source.read_text().splitlines())} lines\n"
    results = output.read_text()
    assert len(results.splitlines()) == len(source.read_text().splitlines())
    assert {"tokens", "label", "probabilities"} <= set(json.loads(results.splitlines()[0]))
    assert elmo("predict", archive, source, output) == 1
    assert mentions(capsys.readouterr().err, "out exists", "--force")
    assert elmo("predict", archive, source, output, "--force", "--batch-size", 2) == 0
    assert output.read_text() == results


def test_standard_input(elmo, tmp_path, monkeypatch, capsys):
    archive = write_archive(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    feed_stdin(monkeypatch, b'{"sentence": "Good."}\n')
    assert elmo("predict", archive, "-", "out") == 0
    assert Path("out").read_text().count("\n") == 1
    feed_stdin(monkeypatch, b'\n{"sentence": 5}\n')
    assert elmo("predict", archive, "-", "bad") == 1
    assert mentions(capsys.readouterr().err, "error: standard input, line 2: ", '"sentence"', "5")


@pytest.mark.parametrize("is_piped", [False, True])
def test_the_results_before_a_file_that_is_cut(elmo, tmp_path, monkeypatch, capsys, is_piped):
    """Both commands write them, of a file and of a pipe, and name the line after them."""
    archive, source = write_archive(tmp_path / "run"), tmp_path / "in"
    packed = gzip.compress("".join(f'{{"sentence": "{random()}"}}\n' for _ in range(99)).encode())
    source.write_bytes(packed[: len(packed) // 2])
    name = "-" if is_piped else str(source)
    feed_stdin(monkeypatch, source.read_bytes())
    assert elmo("predict", archive, name, tmp_path / "out") == 1
    results = (tmp_path / "out").read_text()
    line = results.count("\n") + 1
    assert 10 < line < 90
    where = "standard input" if is_piped else str(source)
    assert mentions(capsys.readouterr().err, f"{where}, line {line}: ", "end-of-stream", "--resume")
    feed_stdin(monkeypatch, source.read_bytes())
    with pytest.raises(ConfigurationError, match=f"{where}, line {line}: .*end-of-stream"):
        predict_file(Predictor.from_path(str(archive), import_plugins=False), name, str(tmp_path / "plain"))
    assert (tmp_path / "plain").read_text() == results
    source.write_bytes(packed)
    feed_stdin(monkeypatch, packed)
    assert elmo("predict", archive, name, tmp_path / "out", "--resume") == 0
    assert (tmp_path / "out").read_text().startswith(results)
    assert (tmp_path / "out").read_text().count("\n") == 99


def test_an_error_names_one_of_several_files_and_its_line_can_be_mended(elmo, tmp_path, capsys):
    archive, good = write_archive(tmp_path / "run"), '{"sentence": "Good."}\n'
    folder, output = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "a").write_text(3 * good)
    (folder / "b").write_text(good + "\n" + '{"sentence": 5}\n')
    assert elmo("predict", archive, folder, output) == 1
    assert mentions(capsys.readouterr().err, f"{folder / 'b'}, line 3: ", "5", "--resume")
    assert output.read_text().count("\n") == 4
    (folder / "b").write_text(good + good)
    assert elmo("predict", archive, folder, output) == 1
    assert mentions(capsys.readouterr().err, "--resume")
    assert elmo("predict", archive, folder, output, "--resume") == 0
    assert output.read_text().count("\n") == 5
    assert not (tmp_path / "out.partial").exists()


@pytest.mark.parametrize("value", ["x", "[1]"])
def test_parameters_that_are_no_object(elmo, value, capsys):
    assert elmo("predict", "nowhere", "in", "out", "--predictor-args", value) == 1
    assert mentions(capsys.readouterr().err, "--predictor-args", value)


def test_parameters_that_the_predictor_does_not_take(elmo, tmp_path, capsys):
    archive, lines = write_archive(tmp_path / "run"), tmp_path / "lines.jsonl"
    lines.write_text('{"sentence": "Good."}\n')
    assert elmo("predict", archive, lines, tmp_path / "out", "--predictor-args", '{"best": 3}') == 1
    assert "error: --predictor-args: " in (error := capsys.readouterr().err)
    assert "'best'" in error
