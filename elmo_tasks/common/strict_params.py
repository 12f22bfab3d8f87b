"""Config blocks whose errors name the path of the key, its value, and the values that it takes."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import Parameter, signature
from typing import Any, ClassVar, Self, Unpack, cast

from allennlp.common import FromParams, Params
from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.errors import ElmoError, FilePath, Place
from elmo_tasks.common.values import check_block, constructor_parameters

_UNION = re.compile(r"Failed to construct argument (\S+) with type")
"""AllenNLP's error of a value that none of several types takes; its cause is the error of the last one."""


class StrictParams(FromParams):
    """
    A mix-in, placed before the AllenNLP base class. Before anything is built, the keys of the class's config
    block are checked against the parameters of its constructor, and the values against their types
    (`values.py`). An error has the path of the key, such as `model.elmo.dropout`, even if the constructor
    raised it.

    AllenNLP on its own reports a misspelt required key as "key ... is required", and a misspelt optional one
    only after the whole object was built. It checks the types of few values.
    """

    renamed_keys: ClassVar[Mapping[str, str]] = {}
    """Old names of keys, which configs may still have, with the current names."""
    inherited_values: ClassVar[Mapping[str, Any]] = {}
    """Types for parameters of AllenNLP's base class, where its own annotations say less."""

    @classmethod
    def from_params(
        cls,
        params: Params,
        constructor_to_call: Callable[..., object] | None = None,
        constructor_to_inspect: Callable[..., object] | None = None,
        **extras: object,
    ) -> Self:
        construct = partial(
            super().from_params, params, constructor_to_call, constructor_to_inspect, **extras
        )
        if not isinstance(params, Params):
            return construct()
        parameters = parameters_of(cls, constructor_to_inspect)
        # These arguments come from elsewhere, not from the block.
        for name in ("vocab", *extras):
            parameters.pop(name, None)
        with block_errors(params.history):
            cls.prepare_block(params, **extras)
            check_block(params.params, parameters, owner=cls.__name__)
            return construct()

    @classmethod
    def prepare_block(cls, params: Params, **extras: object) -> None:
        """Gives old keys their new names. `extras` are AllenNLP's, such as `serialization_dir`."""
        for old, new in cls.renamed_keys.items():
            if old in params and new not in params:
                params[new] = params.pop(old, keep_as_dict=True)


def build_from_block(cls: type[Any], params: Params, **extras: object) -> Any:
    """Builds an object of a class of the core, which is no `FromParams`, from a block that is checked."""
    with block_errors(params.history):
        check_block(params.params, parameters_of(cls, None), owner=cls.__name__)
        return FromParams.from_params.__func__(cls, params, **extras)


def parameters_of(cls: type[Any], constructor: Callable[..., object] | None) -> dict[str, Parameter]:
    if constructor is not None and constructor != cls.__init__:
        return constructor_parameters(constructor)
    parameters: dict[str, Parameter] = {}
    for base in cls.__mro__:
        if own := vars(base).get("__init__"):
            parameters = constructor_parameters(own) | parameters
            if all(
                parameter.kind != Parameter.VAR_KEYWORD for parameter in signature(own).parameters.values()
            ):
                break
    for name, kind in getattr(cls, "inherited_values", {}).items():
        parameters[name] = parameters[name].replace(annotation=kind)
    return parameters


class ConfigError(ConfigurationError, ElmoError):
    """An `ElmoError` for AllenNLP, which ends its commands with the message of a `ConfigurationError`."""

    __reduce__ = ElmoError.__reduce__

    def __init__(self, what: str, **place: Unpack[Place]) -> None:
        ElmoError.__init__(self, what, **place)

    @classmethod
    def of(cls, error: Exception) -> Self:
        """Returns an error with the parts of another one, or with its text; of a union, its last type's."""
        if union := _UNION.match(str(error)):
            of_last_type = cls.of(cast(Exception, error.__cause__))
            _locate(of_last_type, f"{union[1]}.")
            return of_last_type
        if not isinstance(error, ElmoError):
            return cls(str(error))
        return cls(error.what, where=error.where, line=error.line, key=error.key, remedy=error.remedy)

    @property
    def message(self) -> str:
        """The whole sentence, by AllenNLP's name."""
        return ElmoError.__str__(self)


class JsonnetError(ConfigError, RuntimeError):
    """The error of wrong Jsonnet, for which AllenNLP raises a `RuntimeError`."""


@contextmanager
def block_errors(block: str = "") -> Iterator[None]:
    """
    Raises each `ElmoError`, `ConfigurationError` and `OSError` as a `ConfigError` whose key is below `block`,
    such as `model.elmo.`. An error that has such a key already comes from an inner block.
    """
    try:
        yield
    except ConfigError as error:
        _locate(error, block)
        raise
    except (ElmoError, ConfigurationError, OSError) as error:
        config_error = ConfigError.of(error)
        _locate(config_error, block)
        raise config_error from error


@contextmanager
def jsonnet_errors(where: FilePath) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise JsonnetError(" ".join(str(error).split()), where=where) from error


def _locate(error: ConfigError, block: str) -> None:
    if not f"{error.key}.".startswith(block):
        error.key = f"{block}{error.key}".removesuffix(".")
