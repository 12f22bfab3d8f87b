"""Whatever stands in a config block: a value of the kind that is expected is taken, another is named."""

import math
from inspect import Parameter
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elmo_tasks.values import BlockError, NotEmpty, OneOf, Range, check_block
from tests.robustness.attempt import attempt
from tests.values_test import CASES, NAMES, parameters

ANY_KEY = st.text(max_size=3)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_KEY, inner, max_size=3),
    max_leaves=6,
)
ALL = [(case, key, each) for case in CASES for key, each in parameters(*case).items()]
"""Every parameter of every class of ours."""


def right(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a kind."""
    if get_origin(kind) in (Union, UnionType):
        return st.one_of(*map(right, get_args(kind)))
    base, limit = get_args(kind) if get_origin(kind) is Annotated else (kind, None)
    if isinstance(limit, OneOf):
        return st.sampled_from(list(limit.choices))
    low, high = (limit.low, limit.high) if isinstance(limit, Range) else (-1e9, 1e9)
    least = int(isinstance(limit, NotEmpty))
    arguments = get_args(base)
    simple = {
        bool: st.booleans(),
        str: st.text(min_size=least, max_size=5),
        type(None): st.none(),
    }
    if base in simple:
        return simple[base]
    if base is int:
        return st.integers(math.ceil(low), math.floor(high)).filter(lambda number: limit is None or number in limit)
    if base is float:
        return st.floats(low, high).filter(lambda number: limit is None or number in limit)
    origin = get_origin(base) or base
    if origin is tuple:
        return st.tuples(*map(right, arguments)).map(list)
    if origin is dict:
        return st.dictionaries(ANY_KEY, right(arguments[1]) if arguments else ANYTHING, min_size=least, max_size=3)
    if arguments and issubclass(origin, list | tuple) or "Sequence" in str(origin):
        return st.lists(right(arguments[0]), min_size=least, max_size=3)
    # A block of its own, which AllenNLP makes an object of
    return st.nothing()
