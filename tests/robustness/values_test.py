"""Any values in a config block: those of the expected kind are taken, and others are named."""

import math
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.values import NotEmpty, OneOf, Range, check_block, check_value
from tests.common.values_test import CASES, parameters
from tests.robustness.attempt import FUZZ, attempt

KEYS = st.text(max_size=3)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
PARAMETERS = [(key, each) for case in CASES for key, each in parameters(*case).items()]
"""The parameters of every class of ours."""


def right(kind: Any) -> st.SearchStrategy[Any]:
    """Returns values of a kind; none for objects, which AllenNLP makes."""
    if get_origin(kind) in (Union, UnionType):
        return st.one_of(*map(right, get_args(kind)))
    base, limit = get_args(kind) if get_origin(kind) is Annotated else (kind, None)
    if isinstance(limit, OneOf):
        return st.sampled_from(list(limit.choices))
    if get_origin(base) is Literal:
        return st.sampled_from(get_args(base))
    low, high = (limit.low, limit.high) if isinstance(limit, Range) else (-1e9, 1e9)
    open_end = limit.open if isinstance(limit, Range) else None
    least = int(isinstance(limit, NotEmpty))
    arguments = get_args(base)
    if any(right(argument).is_empty for argument in arguments[-1:]):
        return st.nothing()
    if get_origin(base) is tuple:
        return st.tuples(*map(right, arguments)).map(list)
    if get_origin(base) is dict:
        return st.dictionaries(KEYS, right(arguments[1]), min_size=least, max_size=3)
    if arguments and base.__name__ in ("list", "Sequence"):
        return st.lists(right(arguments[0]), min_size=least, max_size=3)
    return {
        bool: st.booleans(),
        str: st.text(min_size=least, max_size=5),
        int: st.integers(math.ceil(low), math.floor(high)),
        float: st.floats(low, high, exclude_min=open_end == "low", exclude_max=open_end == "high"),
        NoneType: st.none(),
        Any: ANYTHING,
    }.get(base, st.nothing())


@settings(max_examples=300 * FUZZ)
@given(data=st.data())
def test_right_values(data):
    key, parameter = data.draw(st.sampled_from(PARAMETERS))
    values = right(parameter.annotation)
    if not values.is_empty:
        check_block({key: data.draw(values)}, {key: parameter}, owner="It")


@settings(max_examples=300 * FUZZ)
@given(parameter=st.sampled_from(PARAMETERS), value=ANYTHING)
def test_any_value(parameter, value):
    key, known = parameter
    _, message = attempt(lambda: check_block({key: value}, {key: known}, owner="It"), error=ElmoError)
    assert not message or message.startswith(key)
    for kind in (bool, str, int, float):
        if known.annotation is kind and value is not None:
            number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            assert (not message) == (number if kind is float else type(value) is kind)


@given(
    ends=st.lists(st.integers(-5, 5), min_size=2, max_size=2, unique=True).map(sorted),
    open_end=st.sampled_from((None, "low", "high")),
    number=st.integers(-6, 6) | st.floats(allow_nan=True),
)
def test_ends_of_a_range(ends, open_end, number):
    low, high = ends
    _, message = attempt(
        check_value, number, Annotated[float, Range(low, high, open=open_end)], "x", error=ElmoError
    )
    inside = low <= number <= high and number != {"low": low, "high": high, None: None}[open_end]
    assert (not message) == inside
    assert not message or message.startswith(f"x: {number!r} is not a number")
