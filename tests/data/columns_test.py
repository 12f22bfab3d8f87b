import logging

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.columns import ColumnLayout, gold_files, line_groups
from elmo_tasks.data.input_files import InputError


@pytest.mark.parametrize(
    ("delimiter", "line", "cells"),
    [
        (None, " a \t b  c\t", ["a", "b", "c"]),
        (None, "10\u00a0000 a\u3000b", ["10\u00a0000", "a\u3000b"]),
        ("\t", "a\t\tb c", ["a", "", "b c"]),
        (", ", "a, b", ["a", "b"]),
    ],
)
def test_cells(delimiter, line, cells):
    assert ColumnLayout(["word"], delimiter, needed=["word"]).split(line) == cells


@pytest.mark.parametrize("names", [[], ["word"], ["w", "t"], ["word", "tag", "tag"], ["word", "word", "tag"]])
def test_impossible_layouts(names):
    with pytest.raises(ConfigurationError, match=r"^columns: found .* 'word' and 'tag' once") as error:
        ColumnLayout(names, None, needed=["word", "tag"])
    assert repr(names) in str(error.value)


def test_groups_between_empty_lines():
    lines = list(enumerate(["", "a", "b", " \t", "#begin x", "c", "", "", "d"], start=1))
    groups = [[(2, "a"), (3, "b")], [(6, "c")], [(9, "d")]]
    assert list(line_groups(lines, separators=("#begin",))) == groups
    assert list(line_groups(lines)) == [groups[0], [(5, "#begin x"), (6, "c")], groups[2]]
    assert list(line_groups([])) == []


@pytest.mark.parametrize(
    ("names", "gold", "left_out"),
    [
        (["a.gold_conll", "a.gold_skel", "b.gold_conll.gz", "b.gold_skel.gz"], [0, 2], "2 skeleton files"),
        (["a.v4_auto_conll", "a.v4_gold_conll", "b.v4_auto_conll"], [1, 2], r"1 files (*_auto_conll)"),
    ],
)
def test_gold_files(tmp_path, caplog, names, gold, left_out):
    """The automatic annotation is read only if there is no gold annotation."""
    for name in names:
        (tmp_path / name).touch()
    with caplog.at_level(logging.INFO):
        files = gold_files(str(tmp_path))
    assert [file.name for file in files] == [names[place] for place in gold]
    assert f"{tmp_path}: {left_out}" in caplog.text
    (tmp_path / "c_skel").touch()
    with pytest.raises(InputError, match="c_skel: found only skeleton files"):
        gold_files(str(tmp_path / "c_skel"))
