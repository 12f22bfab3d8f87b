import inspect
from dataclasses import dataclass
from typing import Any

import pytest

from elmo_tasks.common.values import constructor_parameters, flat


@dataclass(kw_only=True)
class Sizes:
    width: int
    depth: int = 2


class Network:
    @flat
    def __init__(self, *, name: str, sizes: Sizes, **others: Any) -> None:
        self.all = name, sizes, others


def test_the_fields_of_a_dataclass_stand_among_the_parameters():
    assert Network(width=3, name="a", more=4).all == ("a", Sizes(width=3), {"more": 4})
    assert Network(name="a", depth=5, width=3).all == ("a", Sizes(width=3, depth=5), {})
    assert [*inspect.signature(Network.__init__).parameters] == ["self", "name", "width", "depth", "others"]


def test_a_field_that_is_missing():
    with pytest.raises(TypeError, match="width"):
        Network(name="a")


def test_parameters_without_self_and_those_that_have_no_name():
    parameters = constructor_parameters(Network.__init__)
    assert [(name, each.annotation, each.default) for name, each in parameters.items()] == [
        ("name", str, inspect.Parameter.empty),
        ("width", int, inspect.Parameter.empty),
        ("depth", int, 2),
    ]
