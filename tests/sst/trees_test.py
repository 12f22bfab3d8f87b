import random

import pytest
from nltk import Tree as NltkTree

from elmo_tasks.common.files import bundled
from elmo_tasks.sst.reader import Phrase, TreeError, parse

FIXTURES = bundled("fixtures/sst")


def test_a_tree():
    tree = parse("(3 (2 It) (4 (2 's) (3 good)))")
    assert tree.words == ["It", "'s", "good"]
    assert tree.phrases == [
        *(Phrase(3, 0, 3), Phrase(2, 0, 1)),
        *(Phrase(4, 1, 3), Phrase(2, 1, 2), Phrase(3, 2, 3)),
    ]


@pytest.mark.parametrize(
    ("line", "word"), [("(0 Bad)", "Bad"), (" ( 0\tBad ) ", "Bad"), ("(2 8\u00a01/2)", "8\u00a01/2")]
)
def test_blanks_and_tabs_separate(line, word):
    """A no-break space is part of a word, as in the treebank."""
    assert parse(line).words == [word]


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("-LRB-", "("),
        ("-RRB-", ")"),
        ("-LSB-", "["),
        ("-RSB-", "]"),
        ("-LCB-", "{"),
        ("-RCB-", "}"),
        ("actor\\/director", "actor/director"),
        ("1\\/2\\/3", "1/2/3"),
        ("\\*\\*", "**"),
        ("c:\\temp", "c:\\temp"),
        ("-LRB-s", "-LRB-s"),
    ],
)
def test_escapes(written, word):
    assert parse(f"(2 (2 a) (2 {written}))").words == ["a", word]


def test_more_brackets_than_python_has_calls():
    depth = 5000
    tree = parse("(2 " * depth + "x" + ")" * depth)
    assert tree.phrases == [Phrase(2, 0, 1)] * depth


@pytest.mark.parametrize("file", ["train.txt", "dev.txt", "test.txt"])
def test_equals_nltk(file):
    lines = (FIXTURES / file).read_text().splitlines()
    for line in lines:
        tree, reference = parse(line), NltkTree.fromstring(line)
        assert len(tree.words) == len(reference.leaves())
        assert [(phrase.label, phrase.end - phrase.start) for phrase in tree.phrases] == [
            (int(subtree.label()), len(subtree.leaves())) for subtree in reference.subtrees()
        ]


@pytest.mark.parametrize(
    ("line", "column", "found", "expected"),
    [
        ("It 's good", 1, "'It'", "("),
        (")", 1, "')'", "("),
        ("(It 's)", 2, "the label 'It'", "a label from 0 to 4"),
        ("(3 (7 It))", 5, "the label '7'", "a label from 0 to 4"),
        ("(-1 It)", 2, "the label '-1'", "a label from 0 to 4"),
        ("(2.5 It)", 2, "the label '2.5'", "a label from 0 to 4"),
        ("(03 It)", 2, "the label '03'", "a label from 0 to 4"),
        ("(3 ((2 It)))", 5, "'('", "a label from 0 to 4"),
        ("()", 2, "')'", "a label from 0 to 4"),
        ("(3 )", 4, "')'", "a word or ("),
        ("(3 New York)", 8, "'York'", ")"),
        ("(3 It (2 is))", 7, "'('", ")"),
        ("(3 (2 It) is)", 11, "'is'", "( or )"),
        ("(3 (2 It)))", 11, "')'", "the end of the line"),
        ("(3 It) (3 It)", 8, "'('", "the end of the line"),
        ("(3 (2 It) (4 (2 's)", 20, "the end of the line, with the bracket of column 11 open", "( or )"),
        ("(3 It", 6, "the end of the line, with the bracket of column 1 open", ")"),
        ("(", 2, "the end of the line, with the bracket of column 1 open", "a label from 0 to 4"),
        ("", 1, "the end of the line", "("),
    ],
)
def test_what_is_no_tree(line, column, found, expected):
    with pytest.raises(TreeError) as caught:
        parse(line)
    assert (caught.value.column, caught.value.found, caught.value.expected) == (column, found, expected)


def test_a_tree_without_any_one_bracket_is_none():
    line = random.Random(0).choice((FIXTURES / "train.txt").read_text().splitlines())
    for place, character in enumerate(line):
        if character in "()":
            with pytest.raises(TreeError):
                parse(line[:place] + line[place + 1 :])
