"""What all verbs with results have in common, shown by `mix`."""

import csv
import os
import subprocess
import sys

import pytest

from tests.evaluation.archives import make_run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", {"input": [0.0, 1.0, 2.0]})


def test_files_beside_each_other(elmo, run, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    output = tmp_path / "out/results.csv"
    assert elmo("mix", run, "-o", output) == 0
    assert sorted(os.listdir(output.parent)) == [f"results.{kind}" for kind in ("csv", "md", "png", "svg")]
    shown = capsys.readouterr().out
    assert shown.startswith(output.with_suffix(".md").read_text())
    assert shown.endswith(f"\n{output}: also results.svg, results.png, results.md\n")
    assert output.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    picture = output.with_suffix(".svg").read_bytes()
    assert b"<svg" in picture
    assert elmo("mix", run, "-o", output, "--force") == 0
    assert output.with_suffix(".svg").read_bytes() == picture
    (row,) = csv.DictReader(output.open())
    assert row["model"] == "elmo_ner"


def test_a_console_that_cannot_show_all(run, tmp_path):
    run = run.rename(tmp_path / "Łódź")
    command = [sys.executable, "-m", "allennlp", "elmo", "mix", run, "-o", tmp_path / "mix.csv"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert r"\N{LATIN CAPITAL LETTER L WITH STROKE}" in shown
    assert "Łódź" in (tmp_path / "mix.csv").read_text(encoding="utf-8")


def test_only_shown(elmo, run, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert elmo("mix", run) == 0
    assert capsys.readouterr().out.startswith("| archive | model |")
    assert os.listdir() == []


@pytest.mark.parametrize("suffix", [".csv", ".md", ".png", ".svg"])
def test_nothing_is_overwritten_without_force(elmo, run, tmp_path, capsys, suffix):
    there = tmp_path / f"results{suffix}"
    there.write_text("old")
    assert elmo("mix", run, "-o", tmp_path / "results.csv") == 1
    assert capsys.readouterr().err == f"error: {there} exists; --force overwrites it\n"
    assert there.read_text() == "old"
    assert elmo("mix", run, "-o", tmp_path / "results.csv", "--force") == 0
    assert there.read_bytes() != b"old"


def test_an_output_that_cannot_be_written_is_found_before_the_work(elmo, tmp_path, capsys):
    """The archive is not there, but that is not what is wrong first."""
    (tmp_path / "file").touch()
    for output, message in (
        ("file/out.csv", "file/out.csv.partial: Not a directory"),
        ("out.txt", "out.txt, expected a name that ends in .csv"),
    ):
        assert elmo("mix", "nowhere.tar.gz", "-o", tmp_path / output) == 1
        assert message in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["file"]


def test_the_picture_of_another_table_does_not_stay(elmo, run, tmp_path):
    output = tmp_path / "results.csv"
    assert elmo("mix", run, "-o", output) == 0
    (tmp_path / "text").write_text("We play chess .\nThey play .\n")
    assert elmo("neighbors", "play", "--corpus", tmp_path / "text", "-o", output, "--force") == 0
    assert sorted(path.name for path in tmp_path.glob("results.*")) == ["results.csv", "results.md"]
