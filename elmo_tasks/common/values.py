"""
Types for the parameters of constructors, such as `dropout: Probability = 0.0`, and the check against them.

`check_block` checks the values of a config block, and `checked` the arguments of a call. They need no
AllenNLP.
"""

import inspect
import math
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter
from numbers import Integral, Real
from numbers import Number as AnyNumber
from os import PathLike
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, Union, get_args, get_origin

from elmo_tasks.common.errors import ElmoError, did_you_mean

P = ParamSpec("P")
Kind = Any
"""The annotation of a parameter: a class, or a form of `typing`."""
MAX_NUMBER = 10**9


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; an `open` end is excluded."""

    low: float
    high: float = MAX_NUMBER
    open: Literal["low", "high"] | None = None

    def __contains__(self, number: float) -> bool:
        return (self.low < number if self.open == "low" else self.low <= number) and (
            number < self.high if self.open == "high" else number <= self.high
        )

    def __str__(self) -> str:
        if self.open == "high":
            return f" from {self.low:,} to less than {self.high:,}"
        low = f"above {self.low:,}, up" if self.open else f"from {self.low:,}"
        return f" {low} to {self.high:,}"


@dataclass(frozen=True, eq=False)
class OneOf:
    """One of these values, or of the keys of a mapping."""

    choices: Collection[object]

    def __contains__(self, value: object) -> bool:
        return value in self.choices

    def __str__(self) -> str:
        return f"one of {', '.join(map(str, self.choices))}"


@dataclass(frozen=True)
class NotEmpty:
    """Texts and lists that are not empty."""

    def __contains__(self, value: object) -> bool:
        return not isinstance(value, Sized) or len(value) > 0

    def __str__(self) -> str:
        return " that is not empty"


Name = Annotated[str, NotEmpty()]
if TYPE_CHECKING:
    FileName = Union[Name, PathLike[str]]
else:
    FileName = Name  # A path counts as a text (`_KINDS`).
Names = Annotated[list[Name], NotEmpty()]
Size = Annotated[int, Range(1, 10**6)]
Depth = Annotated[int, Range(1, 1000)]
Sizes = Annotated[list[Size], NotEmpty()]
PositiveInt = Annotated[int, Range(1)]
NonNegativeInt = Annotated[int, Range(0)]
Probability = Annotated[float, Range(0, 1, open="high")]
Share = Annotated[float, Range(0, 1, open="low")]
PositiveFloat = Annotated[float, Range(0, open="low")]
NonNegativeFloat = Annotated[float, Range(0)]

_KINDS: dict[Kind, tuple[tuple[type, ...], str]] = {
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
"""The classes of the values that Python's own types take, and their names in a config."""


def constructor_parameters(constructor: Callable[..., object]) -> dict[str, Parameter]:
    parameters = inspect.signature(constructor).parameters
    variable = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    return {
        name: parameter
        for name, parameter in parameters.items()
        if name != "self" and parameter.kind not in variable
    }


def checked(constructor: Callable[P, None]) -> Callable[P, None]:
    """Decorates a constructor, in which a wrong argument is an `ElmoError`, also in a call from Python."""
    parameters = constructor_parameters(constructor)

    @wraps(constructor)
    def construct(*arguments: P.args, **keywords: P.kwargs) -> None:
        self, *positional = arguments
        by_name = dict(zip(parameters, positional, strict=False)) | keywords
        block = {name: by_name[name] for name in parameters if name in by_name}
        check_block(block, parameters, owner=type(self).__name__)
        constructor(*arguments, **keywords)

    return construct


def check_block(
    block: Mapping[str, object], parameters: Mapping[str, Parameter], *, owner: str, path: str = ""
) -> None:
    """
    Raises `ElmoError` for a key of a config block or call that is not a parameter, or a value that its
    parameter does not take. `owner` is the name of the class, and `path` the block's, with a dot at its end.
    """
    for key, value in block.items():
        if key not in parameters:
            hint = did_you_mean(str(key), parameters)
            known_keys = ", ".join(sorted(parameters)) or "none"
            remedy = hint.removeprefix("; ") or f"its parameters are {known_keys}"
            raise ElmoError(f"{owner} has no parameter {key!r}", key=f"{path}{key}", remedy=remedy)
        parameter = parameters[key]
        # As in AllenNLP, a default of None says that None is allowed.
        if value is not None or parameter.default is not None:
            check_value(value, parameter.annotation, f"{path}{key}")


def check_value(value: object, kind: Kind, path: str) -> None:
    """Checks a value, but not the block of a class with `from_params`, which AllenNLP checks in there."""
    if get_origin(kind) in (Union, UnionType):
        kinds = [member for member in get_args(kind) if _is_of(value, _split(member)[0])]
        if len(kinds) > 1 and any(_fits(value, member, path) for member in kinds):
            return
        kind = kinds[0] if len(kinds) == 1 else kind
    base, limit = _split(kind)
    is_of_no_kind = get_origin(kind) in (Union, UnionType) or not _is_of(value, base)
    if is_of_no_kind or (limit is not None and value not in limit):
        text = repr(value)
        shown = text if len(text) <= 100 else f"{text[:97]}..."
        raise ElmoError(f"{shown} is not {_expected(kind)}", key=path)
    for member_path, member, member_kind in _members(value, base, path):
        check_value(member, member_kind, member_path)
    if isinstance(value, Mapping) and _is_class(base) and not hasattr(base, "from_params"):
        parameters = constructor_parameters(base.__init__)
        check_block(value, parameters, owner=base.__name__, path=f"{path}.")
        for name, parameter in parameters.items():
            if name not in value and parameter.default is Parameter.empty:
                raise ElmoError("is required", key=f"{path}.{name}")


def _split(kind: Kind) -> tuple[Kind, Container[object] | None]:
    if get_origin(kind) is not Annotated:
        return kind, None
    base, limit = get_args(kind)
    return base, limit


def _fits(value: object, kind: Kind, path: str) -> bool:
    try:
        check_value(value, kind, path)
    except ElmoError:
        return False
    return True


def _is_of(value: Any, kind: Kind) -> bool:
    """Checks the value itself, but not its members; `kind` is neither a union nor annotated."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return value in arguments
    if origin in _KINDS:
        # In Python true and false are numbers.
        right = isinstance(value, _KINDS[origin][0]) and isinstance(value, bool) == (origin is bool)
        if origin is float:
            return right and -math.inf < value < math.inf
        return right and (origin is not tuple or len(value) == len(arguments))
    if not _is_class(origin):
        return True
    if isinstance(value, str):
        # AllenNLP takes the registered name of a class for a block.
        return hasattr((arguments or (kind,))[0], "by_name")
    return not isinstance(value, AnyNumber | list | tuple | NoneType)


def _members(value: Any, kind: Kind, path: str) -> Iterator[tuple[str, object, Kind]]:
    origin, kinds = get_origin(kind), get_args(kind)
    if origin is dict and kinds:
        yield from ((f"{path}.{key}", member, kinds[1]) for key, member in value.items())
    elif origin is tuple:
        yield from ((f"{path}.{i}", *pair) for i, pair in enumerate(zip(value, kinds, strict=True)))
    elif origin in (list, Sequence):
        yield from ((f"{path}.{i}", member, kinds[0]) for i, member in enumerate(value))


def _is_class(kind: Kind) -> bool:
    return isinstance(kind, type) and kind not in (*_KINDS, Any, Parameter.empty)


def _expected(kind: Kind) -> str:
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(map(_expected, arguments))
    if origin is Literal:
        return str(OneOf(arguments))
    if origin is Annotated:
        base, limit = arguments
        return str(limit) if isinstance(limit, OneOf) else f"{_expected(base)}{limit}"
    if origin is tuple:
        return f"a list of {len(arguments)}"
    return _KINDS[origin][1] if origin in _KINDS else "a block"
