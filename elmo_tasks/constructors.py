"""The parameters of constructors, also where they come in groups."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import wraps
from inspect import Parameter
from typing import Any


def constructor_parameters(constructor: Any) -> dict[str, Parameter]:
    """The parameters of a constructor by name, without `self`."""
    parameters = inspect.signature(constructor).parameters
    variable = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    return {name: each for name, each in parameters.items() if name != "self" and each.kind not in variable}


def flat(constructor: Callable[..., None]) -> Callable[..., None]:
    """
    A constructor that takes the fields of its dataclasses, which are `kw_only`, side by side, as they stand
    in a config block. Its other parameters stay.
    """
    signature = inspect.signature(constructor)
    groups: dict[str, type] = {
        name: each.annotation
        for name, each in signature.parameters.items()
        if isinstance(each.annotation, type) and dataclasses.is_dataclass(each.annotation)
    }

    @wraps(constructor)
    def construct(self: Any, **keywords: Any) -> None:
        grouped = {
            name: group(
                **{key: keywords.pop(key) for key in constructor_parameters(group) if key in keywords}
            )
            for name, group in groups.items()
        }
        constructor(self, **grouped, **keywords)

    parameters = [
        each
        for name, parameter in signature.parameters.items()
        for each in (constructor_parameters(groups[name]).values() if name in groups else [parameter])
    ]
    construct.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return construct
