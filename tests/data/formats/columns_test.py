import logging
import re

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.formats.columns import ColumnLayout, gold_files, line_groups
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


def test_a_word_with_a_blank_between_tabs():
    layout = ColumnLayout(["word", "tag"], None, needed=["word", "tag"])
    cells = [layout.split(line) for line in ("ke s\tO", "a b", "a\tb")]
    assert cells == [["ke s", "O"], ["a", "b"], ["a", "b"]]


@pytest.mark.parametrize("names", [[], ["word"], ["word", "tag", "tag"]])
def test_impossible_layouts(names):
    with pytest.raises(ConfigurationError, match=r"^columns: ") as error:
        ColumnLayout(names, None, needed=["word", "tag"])
    assert repr(names) in str(error.value)


def test_groups_between_empty_lines():
    lines = list(enumerate(["", "a", "b", " \t", "#begin x", "c", "", "", "d"], start=1))
    groups = [[(2, "a"), (3, "b")], [(6, "c")], [(9, "d")]]
    assert list(line_groups(lines, separators=re.compile("#begin"))) == groups
    assert list(line_groups(lines)) == [groups[0], [(5, "#begin x"), (6, "c")], groups[2]]
    assert list(line_groups([])) == []


@pytest.mark.parametrize(
    ("names", "gold"),
    [
        (["a.gold_conll", "a.gold_skel", "b.gold_conll.gz", "b.gold_skel.gz"], [0, 2]),
        (["a.v4_auto_conll", "a.v4_gold_conll", "b.v4_auto_conll"], [1, 2]),
    ],
)
def test_gold_files(tmp_path, caplog, names, gold):
    """The automatic annotation is read only if there is no gold annotation."""
    for name in names:
        (tmp_path / name).touch()
    with caplog.at_level(logging.INFO):
        files = gold_files(str(tmp_path))
    assert [file.name for file in files] == [names[i] for i in gold]
    assert f"{tmp_path}: {len(names) - 2} files left out" in caplog.text
    (tmp_path / "c_skel").touch()
    with pytest.raises(InputError, match="c_skel:"):
        gold_files(str(tmp_path / "c_skel"))


@pytest.mark.parametrize(
    ("names", "delimiter", "content", "words"),
    [
        (4, None, "# id x O\nAnn NNP B-NP B-PER\n", "Ann"),
        (4, None, "# sent_id = 1\n# text = Ann\n#\nAnn N O B-A\n# N O O\n\n# N O O\n5 N O O\n", "Ann # # 5"),
        (2, None, "# id 5f domain=en\nAnn B-A\n\n# O\n5 O\n\n#xy O\n\n# 3\nAnn O\n", "Ann # 5 #xy Ann"),
        (2, "\t", "## klue-1\t<Ann:PS> runs\nAnn\tB-PS\n\n#\tO\n5\tO\n", "Ann # 5"),
        (4, None, "#\tDie Zeit [2010]\n1\tAnn\tB-PER\tO\n", "1"),
        (2, "\t", "###MEDLINE:95369245\n\nAnn\tO\n\n###\tO\n###Ann\tO\n", "Ann ### ###Ann"),
        (2, "\t", "Ann\tO\n# segment = x\nruns\tO\n", "Ann runs"),
        (2, None, "# only a comment\n\nAnn O \t\n", "Ann"),
        (2, "\t", "Ann\tO\t\t\nruns\tO\t\n", "Ann runs"),
    ],
)
def test_comments_and_trailing_delimiters(tmp_path, names, delimiter, content, words):
    """Lines that begin with `#` are rows where they can be rows."""
    layout = ColumnLayout(["word", "tag", "_", "_"][:names], delimiter, needed=["word"])
    (tmp_path / "a").write_text(content)
    rows = [layout.row(tmp_path, *line)[0] for lines in layout.sentences(tmp_path / "a") for line in lines]
    assert rows == words.split()


@pytest.mark.parametrize(("comments", "rows"), [("# ", 1), ("%", 3), (None, 3)])
def test_comments_by_a_begin(tmp_path, comments, rows):
    (tmp_path / "a").write_text("# x\nAnn O\n# O\n")
    layout = ColumnLayout(["word", "tag"], None, needed=["word"], comments=comments)
    assert [len(lines) for lines in layout.sentences(tmp_path / "a")] == [rows]


def test_a_file_without_empty_lines_warns_once(tmp_path, caplog):
    (tmp_path / "a").write_text("\n" + "Ann O\n" * 251 + "\n" + "Ann O\n" * 252)
    layout = ColumnLayout(["word", "tag"], None, needed=["word"])
    assert [len(lines) for lines in layout.sentences(tmp_path / "a")] == [251, 252]
    (message,) = (record.getMessage() for record in caplog.records)
    assert message.startswith(f"{tmp_path}/a, line 2: ")
