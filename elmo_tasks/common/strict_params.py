"""Config blocks whose errors name the path of the key, its value, and what is expected."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

from allennlp.common import FromParams, Params
from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.values import check_block, checked, constructor_parameters


class StrictParams(FromParams):
    """
    A mix-in, placed before the AllenNLP base class. Before anything is built, the keys of the class's config
    block are checked against the parameters of its constructor, and the values against their types
    (`values.py`); so are the arguments of a call from Python. An error has the path of the block, such as
    `model.elmo.dropout is 1.0, expected ...`, even if the constructor raised it.

    AllenNLP on its own reports a misspelt required key as "key ... is required", and a misspelt optional one
    only after the whole object was built. It checks the types of few values.
    """

    renamed_keys: ClassVar[Mapping[str, str]] = {}
    """The former names of keys, which configs may still have, and their current names."""
    inherited_values: ClassVar[Mapping[str, Any]] = {}
    """Types for parameters of AllenNLP's base class, where its own annotations say less."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = block_errors()(checked(cls.__init__))  # type: ignore[method-assign]

    @classmethod
    def from_params(
        cls,
        params: Params,
        constructor_to_call: Callable[..., Any] | None = None,
        constructor_to_inspect: Callable[..., Any] | None = None,
        **extras: Any,
    ) -> Any:
        construct = partial(
            super().from_params,
            constructor_to_call=constructor_to_call,
            constructor_to_inspect=constructor_to_inspect,
            **extras,
        )
        if not isinstance(params, Params):
            return construct(params)
        parameters = parameters_of(cls, constructor_to_inspect or cls.__init__)
        # These arguments come from elsewhere, not from the block.
        for name in ("vocab", *extras):
            parameters.pop(name, None)
        former = [old for old in cls.renamed_keys if old in params]
        with _errors_in(params.history, cls.__name__, parameters):
            cls.prepare_block(params, **extras)
            try:
                with block_errors():
                    check_block(params.params, parameters, owner=cls.__name__)
                return construct(params)
            except ConfigurationError as error:
                for old in former:  # by the names of the config
                    error.message = re.sub(rf"\b{cls.renamed_keys[old]}\b", old, error.message)
                raise

    @classmethod
    def prepare_block(cls, params: Params, **extras: Any) -> None:
        """
        Changes a block before it is checked: former names of keys become the current ones. `extras` are what
        AllenNLP passes on to everything that it builds, such as `serialization_dir`.
        """
        for old, new in cls.renamed_keys.items():
            if old not in params:
                continue
            if new in params:
                raise ConfigurationError(
                    f"{cls.__name__}: found the keys {old!r} and {new!r}, expected only {new!r}, the new "
                    "name of the other"
                )
            params[new] = params.pop(old, keep_as_dict=True)


def parameters_of(cls: type[Any], constructor: Callable[..., None]) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a constructor, and of the base classes that it passes `**kwargs` on to."""
    if constructor != cls.__init__:
        return constructor_parameters(constructor)
    parameters: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        own: Callable[..., None] | None = vars(base).get("__init__")
        if own is None:
            continue
        parameters = constructor_parameters(own) | parameters
        kinds = [each.kind for each in inspect.signature(own).parameters.values()]
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            break
    for name, kind in getattr(cls, "inherited_values", {}).items():
        parameters[name] = parameters[name].replace(annotation=kind)
    return parameters


@contextmanager
def block_errors() -> Iterator[None]:
    """Turns an `ElmoError` into AllenNLP's `ConfigurationError`."""
    try:
        yield
    except ElmoError as error:
        raise ConfigurationError(str(error)) from None


@contextmanager
def _errors_in(history: str, owner: str, keys: Mapping[str, Any]) -> Iterator[None]:
    """Gives an error the path of its block, `history`; in nested blocks, the path of the innermost."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ConfigurationError) and not isinstance(error, ElmoError):
            _locate(error, history, keys)
            raise
        message = str(error)
        # A file is missing, AllenNLP's own blocks are wrong, or memory is short.
        if not isinstance(error, ElmoError):
            first_line = message.partition("\n")[0]
            message = f"{owner} cannot be built: {type(error).__name__}: {first_line}"
        in_block = ConfigurationError(message)
        _locate(in_block, history, keys)
        raise in_block from error


def _locate(error: ConfigurationError, history: str, keys: Mapping[str, Any]) -> None:
    """Puts the path of the block before the key that the message begins with, or before the message."""
    if not hasattr(error, "block"):
        error.block = history
        first_word = re.split(r"\W", error.message, maxsplit=1)[0]
        before = history if first_word in keys or not history else f"{history.removesuffix('.')}: "
        error.message = before + error.message
