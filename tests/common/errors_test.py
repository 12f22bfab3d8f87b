"""The core's error, and what its messages suggest."""

import pickle
from pathlib import Path

import pytest

from elmo_tasks.common.errors import ElmoError, did_you_mean, did_you_mean_path, nearest_name
from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.data.input_files import InputError


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({}, "the tag is unknown"),
        ({"where": Path("a/words"), "line": 3}, "a/words, line 3: the tag is unknown"),
        ({"where": ["a", "b"], "remedy": "use 'B'"}, "a, b: the tag is unknown; use 'B'"),
        ({"key": "model.elmo", "where": "a"}, "model.elmo: a: the tag is unknown"),
    ],
)
@pytest.mark.parametrize("kind", [ElmoError, ConfigError, InputError])
def test_the_sentence_of_the_parts(kind, parts, sentence):
    error = kind("the tag is unknown", **parts)
    assert isinstance(error, ElmoError)
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == sentence


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
