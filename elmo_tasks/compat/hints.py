"""AllenNLP's errors about names that it does not know: commands, registered names, config keys."""

import argparse
import functools
from collections.abc import Callable
from typing import Any

from allennlp.commands import ArgumentParserWithDefaults
from allennlp.common import Params, from_params, params, registrable
from allennlp.common.checks import ConfigurationError
from allennlp.training import GradientDescentTrainer

from elmo_tasks.wording import did_you_mean, nearest_name


def install() -> None:
    """Adds the nearest right name to each of these errors; may be called twice."""
    # argparse: commands, verbs, choices of options
    ArgumentParserWithDefaults._check_value = _check_value
    # `Registrable.by_name`, which on its own names what is one letter away
    registrable._get_suggestion = nearest_name
    for owner, name, wrap in (
        (params.Params, "pop_choice", _pop_choice),
        (from_params, "create_kwargs", _create_kwargs),
    ):
        stock = getattr(owner, name)
        if not hasattr(stock, "__wrapped__"):
            setattr(owner, name, wrap(stock))


def _check_value(self: argparse.ArgumentParser, action: argparse.Action, value: Any) -> None:
    try:
        super(ArgumentParserWithDefaults, self)._check_value(action, value)
    except argparse.ArgumentError as error:
        error.message += did_you_mean(value, action.choices or ())
        raise


def _pop_choice(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of the registered names, whose list is long."""

    @functools.wraps(stock)
    def pop_choice(self: Params, key: str, choices: list[Any], *args: Any, **options: Any) -> Any:
        value = self.params.get(key)
        try:
            return stock(self, key, choices, *args, **options)
        except ConfigurationError as error:
            if hint := did_you_mean(str(value), choices):
                error.message = f"{self.history}{key}: found {value!r}, which is no registered name{hint}"
            raise

    return pop_choice


def _create_kwargs(stock: Callable[..., Any]) -> Callable[..., Any]:
    """
    Of the keys of a block for a class of AllenNLP; those of ours are checked before (`StrictParams`). The
    trainer on its own drops what it does not know, so that `num_epoch` would train 20 epochs.
    """

    @functools.wraps(stock)
    def create_kwargs(constructor: Any, cls: type, params: Params, **extras: Any) -> Any:
        known = set(from_params.infer_params(cls, constructor)) - {"self"}
        hints = [
            f"{params.history}{key} is no key of {cls.__name__}{hint}"
            for key in params
            if key not in known and (hint := did_you_mean(key, known))
        ]
        try:
            if hints and cls is GradientDescentTrainer:
                raise ConfigurationError(hints.pop(0))
            return stock(constructor, cls, params, **extras)
        except ConfigurationError as error:
            for hint in hints:
                error.add_note(hint)
            raise

    return create_kwargs
