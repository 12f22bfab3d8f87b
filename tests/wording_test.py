"""What messages are made of."""

import pytest

from elmo_tasks.common.wording import did_you_mean, did_you_mean_path, duration, nearest_name


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
        ("runs/nerr/model.tar.gz", "runs/ner"),  # of the first part that is missing
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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3569, "59 min"),
        (3571, "1 h 0 min"),
        (4320, "1 h 12 min"),
        (86_370, "1 d 0 h"),
        (300_000, "3 d 11 h"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text
