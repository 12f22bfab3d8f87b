"""
The parameters of constructors, also where they come in groups.

The values of a config block: types for the parameters of constructors, and the one check against them.

A constructor says `dropout: Probability = 0.0`; `check_block` finds what is wrong with a block of its
parameters.
"""

import inspect
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter
from numbers import Integral, Real
from numbers import Number as AnyNumber
from os import PathLike
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, ParamSpec, Union, get_args, get_origin

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.wording import did_you_mean


# ==== constructors
def constructor_parameters(constructor: Any) -> dict[str, Parameter]:
    """The parameters of a constructor by name, without `self`."""
    parameters = inspect.signature(constructor).parameters
    variable = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    return {name: each for name, each in parameters.items() if name != "self" and each.kind not in variable}


# ==== values
P = ParamSpec("P")
MAX_NUMBER = 10**9
"""No number of a config is larger."""


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; where one of the two is `open`, without itself."""

    low: float
    high: float = MAX_NUMBER
    open: Literal["low", "high"] | None = None

    def __contains__(self, number: float) -> bool:
        return (self.low < number if self.open == "low" else self.low <= number) and (
            number < self.high if self.open == "high" else number <= self.high
        )

    def __str__(self) -> str:
        if self.open == "high":
            return f" of {self.low:,} or more, and less than {self.high:,}"
        return (
            f" above {self.low:,}, up to {self.high:,}"
            if self.open
            else f" from {self.low:,} to {self.high:,}"
        )


@dataclass(frozen=True, eq=False)
class OneOf:
    """One of these values, or of the keys of a mapping."""

    choices: Collection[Any]

    def __contains__(self, value: Any) -> bool:
        return value in self.choices

    def __str__(self) -> str:
        return f"one of {', '.join(map(str, self.choices))}"


@dataclass(frozen=True)
class NotEmpty:
    """Texts and lists with something in them."""

    def __contains__(self, value: Any) -> bool:
        return not isinstance(value, Sized) or len(value) > 0

    def __str__(self) -> str:
        return " that is not empty"


Name = Annotated[str, NotEmpty()]
"""Of a file, a column, a language and the like."""
Names = Annotated[list[Name], NotEmpty()]
Size = Annotated[int, Range(1, 10**6)]
"""Of a layer or a vector, and how many of them."""
Depth = Annotated[int, Range(1, 1000)]
"""How many layers there are, one on top of the other."""
Sizes = Annotated[list[Size], NotEmpty()]
"""Of one layer after the other."""
PositiveInt = Annotated[int, Range(1)]
"""How many there are, at least one."""
NonNegativeInt = Annotated[int, Range(0)]
"""How many there are, or none."""
Probability = Annotated[float, Range(0, 1, open="high")]
"""Of something that must not always happen, such as dropout."""
Share = Annotated[float, Range(0, 1, open="low")]
"""Of a whole; not nothing."""
PositiveFloat = Annotated[float, Range(0, open="low")]
NonNegativeFloat = Annotated[float, Range(0)]


_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((Integral,), "a whole number"),
    float: ((Real,), "a number"),
    str: ((str, PathLike), "a text"),
    NoneType: ((NoneType,), "null"),
    list: ((list, tuple), "a list"),
    Sequence: ((list, tuple), "a list"),
    tuple: ((list, tuple), "a list"),
    dict: ((Mapping,), "a block"),
    Callable: ((Callable,), "a function"),  # type: ignore[dict-item]
}
"""What Python's own types take, and how they are called in a config."""


def check_block(
    block: Mapping[str, Any], parameters: Mapping[str, Parameter], *, owner: str, path: str = ""
) -> None:
    """
    # Parameters

    block : of a config, or the keyword arguments of a call.
    parameters : of the constructor that the block is for.
    owner : name of the class, for the error.
    path : what stands before the keys in an error.

    # Raises
    `ElmoError`: a key that is no parameter; a value that its parameter does not take.
    """
    for key, value in block.items():
        if key not in parameters:
            hint = did_you_mean(str(key), parameters)
            known_keys = ", ".join(sorted(parameters)) or "none"
            raise ElmoError(
                f"{owner}: unknown key {key!r}{hint or ';'} known keys: {known_keys}", key=f"{path}{key}"
            )
        parameter = parameters[key]
        # As in AllenNLP, a default of None says that None is allowed.
        if value is not None or parameter.default is not None:
            check_value(value, parameter.annotation, f"{path}{key}")


def checked(constructor: Callable[P, None]) -> Callable[P, None]:
    """
    A constructor whose arguments are checked, those of a call from Python too.

    # Raises
    `ElmoError`: a value that its parameter does not take.
    """
    parameters = constructor_parameters(constructor)

    @wraps(constructor)
    def construct(*arguments: P.args, **keywords: P.kwargs) -> None:
        self, *rest = arguments
        by_name = dict(zip(parameters, rest, strict=False)) | keywords
        block = {name: by_name[name] for name in parameters if name in by_name}
        check_block(block, parameters, owner=type(self).__name__)
        constructor(*arguments, **keywords)

    return construct


def check_value(value: Any, kind: Any, path: str) -> None:
    """
    # Parameters

    kind : the annotation of a parameter. The value for a class is a block, which is checked when AllenNLP
        makes an object of it (`from_params`), or here, by the parameters of the class.

    # Raises
    `ElmoError`, with path, value and what is expected: the value is not of that kind.
    """
    if get_origin(kind) in (Union, UnionType):
        errors = [error for each in get_args(kind) if (error := _error(value, each, path)) is not None]
        if len(errors) < len(get_args(kind)):
            return
        deepest = max(errors, key=lambda error: len(error.key))
        if len(deepest.key) > len(path):
            raise deepest
        raise _wrong(value, kind, path)
    base, limit = get_args(kind) if get_origin(kind) is Annotated else (kind, None)
    if not _is_of(value, base):
        raise _wrong(value, kind, path)
    for inner_path, inner_value, inner_kind in _members(value, base, path):
        check_value(inner_value, inner_kind, inner_path)
    if limit is not None and value not in limit:
        raise _wrong(value, kind, path)
    if isinstance(value, Mapping) and _is_class(base) and not hasattr(base, "from_params"):
        parameters = constructor_parameters(base.__init__)
        check_block(value, parameters, owner=base.__name__, path=f"{path}.")
        for name, parameter in parameters.items():
            if name not in value and parameter.default is Parameter.empty:
                raise ElmoError(f'{path}: key "{name}" is required', key=f"{path}.{name}")


def _error(value: Any, kind: Any, path: str) -> ElmoError | None:
    try:
        check_value(value, kind, path)
    except ElmoError as error:
        # Its frames would keep the object whose arguments are checked until the next collection of garbage.
        return error.with_traceback(None)
    return None


def _wrong(value: Any, kind: Any, path: str) -> ElmoError:
    text = repr(value)
    shown = text if len(text) <= 100 else f"{text[:97]}..."
    return ElmoError(f"{path} is {shown}, expected {_expected(kind)}", key=path)


def _is_of(value: Any, kind: Any) -> bool:
    """Whether the value itself is right, whatever its members are; `kind` is no union, and has no limit."""
    origin = get_origin(kind) or kind
    if origin in _KINDS:
        # In Python true and false are numbers.
        right = isinstance(value, _KINDS[origin][0]) and isinstance(value, bool) == (origin is bool)
        if origin is float:
            return right and -math.inf < value < math.inf
        return right and (origin is not tuple or len(value) == len(get_args(kind)))
    if not _is_class(origin):
        return True
    if isinstance(value, str):
        # AllenNLP takes the registered name of a class for a block.
        return hasattr((get_args(kind) or (kind,))[0], "by_name")
    return not isinstance(value, AnyNumber | list | tuple | NoneType)


def _members(value: Any, kind: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Path, value and kind of each member of a list or block."""
    origin, kinds = get_origin(kind), get_args(kind)
    if origin is dict and kinds:
        yield from ((f"{path}.{key}", member, kinds[1]) for key, member in value.items())
    elif origin is tuple:
        yield from ((f"{path}.{i}", *pair) for i, pair in enumerate(zip(value, kinds, strict=True)))
    elif origin in (list, Sequence):
        yield from ((f"{path}.{i}", member, kinds[0]) for i, member in enumerate(value))


def _is_class(kind: Any) -> bool:
    """Whether objects are made for it; not so where an annotation says nothing."""
    return isinstance(kind, type) and kind not in (*_KINDS, Any, Parameter.empty)


def _expected(kind: Any) -> str:
    """A kind in words."""
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType):
        return ", or ".join(map(_expected, get_args(kind)))
    if origin is Annotated:
        base, limit = get_args(kind)
        return str(limit) if isinstance(limit, OneOf) else f"{_expected(base)}{limit}"
    if origin is tuple:
        return f"a list of {len(get_args(kind))}"
    return _KINDS[origin][1] if origin in _KINDS else "a block"
