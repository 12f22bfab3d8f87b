import pytest

from elmo_tasks.data.tag_schemes import TagError
from elmo_tasks.srl.arguments import Argument, description, from_tags, to_tags

WORDS = ["Omar", "looked", "the", "word", "up", "."]
TAGS = ["B-ARG0", "B-V", "B-ARG1", "I-ARG1", "B-C-V", "O"]
ARGUMENTS = [
    Argument("ARG0", ((0, 1),)),
    Argument("V", ((1, 2), (4, 5))),
    Argument("ARG1", ((2, 4),)),
]


def test_there_and_back():
    assert from_tags(TAGS) == ARGUMENTS
    assert to_tags(reversed(ARGUMENTS), 6) == TAGS


def test_description():
    assert description(WORDS, TAGS) == "[ARG0: Omar] [V: looked] [ARG1: the word] [C-V: up] ."
    assert description(["No", "."], ["O", "O"]) == "No ."


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-C-X O B-C-X", [("X", ((0, 1), (2, 3)))]),
        ("B-X B-X B-C-X", [("X", ((0, 1),)), ("X", ((1, 2), (2, 3)))]),
        ("B-R-X B-C-X O", [("R-X", ((0, 1),)), ("X", ((1, 2),))]),
        ("O O", []),
    ],
)
def test_continuations(tags, expected):
    assert from_tags(tags.split()) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        [Argument("X", ((0, 1), (4, 5))), Argument("X", ((2, 3),))],  # C-X would be of the second
        [Argument("C-X", ((0, 1),))],
        [Argument("X", ((0, 2),)), Argument("Y", ((1, 3),))],
        [Argument("X", ((2, 2),))],
        [Argument("X", ((5, 7),))],
        [Argument("", ((0, 1),))],
    ],
)
def test_what_tags_cannot_tell(arguments):
    with pytest.raises(ValueError, match="expected"):
        to_tags(arguments, 6)


def test_no_iob2():
    with pytest.raises(TagError):
        from_tags(["I-X"])
