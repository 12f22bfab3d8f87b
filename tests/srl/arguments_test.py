import pytest

from elmo_tasks.data.formats.roles import RoleArgument
from elmo_tasks.data.tag_schemes import TagError
from elmo_tasks.srl.metric import from_tags, to_tags

TAGS = ["B-ARG0", "B-V", "B-ARG1", "I-ARG1", "B-C-V", "O"]
ARGUMENTS = [
    RoleArgument("ARG0", ((0, 1),)),
    RoleArgument("V", ((1, 2), (4, 5))),
    RoleArgument("ARG1", ((2, 4),)),
]


def test_there_and_back():
    assert from_tags(TAGS) == ARGUMENTS
    assert to_tags(reversed(ARGUMENTS), 6) == TAGS
    with pytest.raises(TagError):
        from_tags(["I-X"])


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
