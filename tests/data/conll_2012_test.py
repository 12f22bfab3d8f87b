import logging

import pytest

from elmo_tasks.data.columns import gold_files
from elmo_tasks.data.input_files import InputError


def test_skeletons_are_left_out(tmp_path, caplog):
    for name in ("a.gold_conll", "a.gold_skel", "b.gold_conll.gz", "b.gold_skel.gz"):
        (tmp_path / name).touch()
    with caplog.at_level(logging.INFO):
        files = gold_files(str(tmp_path))
    assert [file.name for file in files] == ["a.gold_conll", "b.gold_conll.gz"]
    assert f"{tmp_path}: 2 skeleton files (*_skel) left out" in caplog.text


def test_automatic_annotation_is_left_out_where_there_is_gold(tmp_path, caplog):
    for name in ("a.v4_gold_conll", "a.v4_auto_conll", "b.v4_auto_conll", "c.v4_gold_conll.gz"):
        (tmp_path / name).touch()
    with caplog.at_level(logging.INFO):
        files = gold_files(str(tmp_path))
    assert [file.name for file in files] == ["a.v4_gold_conll", "b.v4_auto_conll", "c.v4_gold_conll.gz"]
    assert f"{tmp_path}: 1 files (*_auto_conll) left out" in caplog.text


def test_nothing_but_skeletons(tmp_path):
    (tmp_path / "a.gold_skel").touch()
    with pytest.raises(InputError, match="found only skeleton files, expected files with words"):
        gold_files(str(tmp_path))
