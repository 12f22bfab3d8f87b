import pytest

from elmo_tasks.data.tag_schemes import TagError
from elmo_tasks.srl.metric import Argument, from_tags, in_brackets, to_tags

WORDS = ["Omar", "looked", "the", "word", "up", "."]
TAGS = ["B-ARG0", "B-V", "B-ARG1", "I-ARG1", "B-C-V", "O"]
ARGUMENTS = [Argument("ARG0", ((0, 1),)), Argument("V", ((1, 2), (4, 5))), Argument("ARG1", ((2, 4),))]


def test_there_and_back():
    assert from_tags(TAGS) == ARGUMENTS
    assert to_tags(reversed(ARGUMENTS), 6) == TAGS
    with pytest.raises(TagError):
        from_tags(["I-X"])


def test_description():
    assert in_brackets(WORDS, TAGS) == "[ARG0: Omar] [V: looked] [ARG1: the word] [C-V: up] ."
    assert in_brackets(["No", "."], ["O", "O"]) == "No ."


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
        [("X", ((0, 1), (4, 5))), ("X", ((2, 3),))],  # C-X would continue the second
        [("C-X", ((0, 1),))],
        [("X", ((0, 2),)), ("Y", ((1, 3),))],
        [("X", ((5, 7),))],
    ],
)
def test_arguments_that_tags_cannot_express(arguments):
    with pytest.raises(ValueError, match=r"argument|Span"):
        to_tags([Argument(*argument) for argument in arguments], 6)
