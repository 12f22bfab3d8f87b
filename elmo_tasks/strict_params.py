"""Configuration errors that name the misspelt key."""

import difflib
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from allennlp.common import FromParams, Params
from allennlp.common.checks import ConfigurationError


class StrictParams(FromParams):
    """
    Mix-in, placed before the AllenNLP base class: an unknown key in the configuration block of the
    class is an error that names the key and the nearest known one, before anything is built.

    AllenNLP on its own reports a misspelt required key as "key ... is required", and a misspelt
    optional one only after the whole object was built.
    """

    renamed_keys: ClassVar[dict[str, str]] = {}
    """The former names of keys, which configs may still have, and their names of today."""

    @classmethod
    def from_params(
        cls,
        params: Params,
        constructor_to_call: Callable | None = None,
        constructor_to_inspect: Callable | None = None,
        **extras: Any,
    ) -> Any:
        if isinstance(params, Params):
            cls._rename_keys(params)
            known = _parameter_names(cls)
            for key in params.keys():  # noqa: SIM118 (Params is no plain mapping)
                if key not in known and key != "type":
                    nearest = difflib.get_close_matches(key, sorted(known), n=1)
                    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
                    raise ConfigurationError(
                        f"{cls.__name__}: unknown key {key!r}{hint} Known keys: " + ", ".join(sorted(known))
                    )
        return super().from_params(
            params,
            constructor_to_call=constructor_to_call,
            constructor_to_inspect=constructor_to_inspect,
            **extras,
        )

    @classmethod
    def _rename_keys(cls, params: Params) -> None:
        for old, new in cls.renamed_keys.items():
            if old not in params:
                continue
            if new in params:
                raise ConfigurationError(
                    f"{cls.__name__}: found the keys {old!r} and {new!r}, expected only {new!r}, the new "
                    "name of the other"
                )
            params[new] = params.pop(old, keep_as_dict=True)


def _parameter_names(cls: type) -> set[str]:
    """Keyword parameters of the constructor, and of the base classes it passes `**kwargs` on to."""
    names: set[str] = set()
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = inspect.signature(base.__init__).parameters.values()  # type: ignore[misc]
        names.update(p.name for p in parameters if p.kind is not p.VAR_KEYWORD)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return names - {"self", "vocab", "args"}
