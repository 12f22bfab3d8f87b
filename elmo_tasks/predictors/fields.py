"""The fields of a JSON object that a predictor reads, with what is wrong with them."""

import json
from typing import Any

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.json_lines import shorten


def require(json_dict: JsonDict, name: str, kind: type, expected: str) -> Any:
    """
    The value of a field.

    # Raises
    `ConfigurationError` with what was found, if it is missing or of another type.
    """
    if name not in json_dict:
        found = ", ".join(f'"{key}"' for key in json_dict) or "none"
        raise ConfigurationError(f"found the fields: {found}; expected {expected}")
    if not isinstance(json_dict[name], kind):
        found = shorten(json.dumps(json_dict[name], default=repr))
        raise ConfigurationError(f'"{name}" is {found}; expected {expected}')
    return json_dict[name]


def require_text(json_dict: JsonDict, text: str, tokens: str) -> str | list[str]:
    """
    The value of the field `text`, or the words in the field `tokens`.

    # Raises
    `ConfigurationError` with what was found, if it has neither field, or one of another type.
    """
    expected = f'"{text}": a string, or "{tokens}": a list of strings'
    if tokens in json_dict:
        return require_tokens(json_dict, expected, tokens)
    return require(json_dict, text, str, expected)


def require_tokens(json_dict: JsonDict, expected: str, name: str = "tokens") -> list[str]:
    """
    The value of the field `name`.

    # Raises
    `ConfigurationError` with what was found, if it is no list of strings.
    """
    words = require(json_dict, name, list, expected)
    for position, word in enumerate(words):
        if not isinstance(word, str):
            found = shorten(repr(word))
            raise ConfigurationError(f'"{name}" has {found} at position {position}; expected strings')
    return words
