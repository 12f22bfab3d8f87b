"""The core's error, and what its messages suggest."""

from pathlib import Path

import pytest

from elmo_tasks.common.errors import ElmoError, did_you_mean, did_you_mean_path, nearest_name


@pytest.mark.parametrize(("line", "where"), [(3, "a/words, line 3"), (None, "a/words")])
@pytest.mark.parametrize("kind", [str, Path])
def test_says_where_what_was_found_and_what_was_expected(kind, line, where):
    error = ElmoError.at(kind("a/words"), line, found="an empty line", expected="a word")
    assert isinstance(error, ValueError)
    assert str(error) == f"{where}: found an empty line, expected a word"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("tran", "train"), ("Build_Vocab", "build-vocab"), ("elmo_nerr", "elmo_ner"), ("x", None), ("", None)],
)
def test_nearest_name(name, nearest):
    names = ["predict", "elmo_ner", "elmo_srl", "train", "build-vocab"]
    assert nearest_name(name, names) == nearest
    assert did_you_mean(name, names) == (f"; did you mean {nearest!r}?" if nearest else "")


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("runs/ner/modle.tar.gz", "runs/ner/model.tar.gz"),
        ("runs/nerr/model.tar.gz", "runs/ner"),  # its first part that is missing
        ("runs/ner/model.tar.gz", None),
        ("runs/ner/model.tar.gz/x", None),
        ("elsewhere/model.tar.gz", None),
    ],
)
def test_nearest_path(tmp_path, monkeypatch, path, nearest):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/ner").mkdir(parents=True)
    (tmp_path / "runs/ner/model.tar.gz").touch()
    assert did_you_mean_path(path) == (f"; did you mean '{nearest}'?" if nearest else "")
