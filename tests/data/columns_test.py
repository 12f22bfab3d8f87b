import re

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.columns import ColumnLayout, line_groups


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


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["word"], "columns: found ['word'], expected a list of names with 'word' and 'tag' once each"),
        (["word", "tag", "tag"], "columns: found"),
    ],
)
def test_impossible_layouts(names, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        ColumnLayout(names, None, needed=["word", "tag"])


def test_groups_between_empty_lines():
    lines = list(enumerate(["", "a", "b", " \t", "#begin x", "c", "", "", "d"], start=1))
    groups = [[(2, "a"), (3, "b")], [(6, "c")], [(9, "d")]]
    assert list(line_groups(lines, separators=("#begin",))) == groups
    assert list(line_groups(lines)) == [groups[0], [(5, "#begin x"), (6, "c")], groups[2]]
    assert list(line_groups([])) == []
