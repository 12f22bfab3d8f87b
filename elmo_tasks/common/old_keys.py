"""The keys of configs that AllenNLP 1.0 dropped, for errors and for docs/migration.md."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.strict_params import ConfigError


@dataclass(frozen=True)
class OldKey:
    """
    A row of the table.

    # Parameters

    before : the key as the page shows it.
    now : what takes its place.
    paths : a pattern of its paths in a config, such as `model.encoder.regularizer`.
    is_old : tells whether its value is of the old form.
    """

    before: str
    now: str
    paths: str
    is_old: Callable[[Any], bool] = lambda value: True

    def is_of(self, path: str, value: Any) -> bool:
        return bool(re.fullmatch(self.paths, path)) and self.is_old(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


OLD_KEYS = (
    OldKey(
        '`"iterator"`',
        '`"data_loader": {"batch_size": 32}`, or `{"batch_sampler": {"type": "bucket", "batch_size": 32}}`',
        "iterator",
    ),
    OldKey('`"validation_iterator"`', '`"validation_data_loader"`, of the same form', "validation_iterator"),
    OldKey(
        '`"lazy"` of a reader',
        '`"max_instances_in_memory": 1000` of `data_loader`, or nothing for `false`',
        r"(validation_)?dataset_reader\.(.*\.)?lazy",
    ),
    OldKey(
        '`"sorting_keys": [["tokens", "num_tokens"]]`',
        '`"sorting_keys": ["tokens"]`, the names of fields',
        r"(validation_)?data_loader\.batch_sampler\.sorting_keys",
        lambda value: isinstance(value, list) and any(map(_is_list, value)),
    ),
    OldKey(
        'a list as `"initializer"` or `"regularizer"`',
        '`{"regexes": [...]}` around the list',
        r"model\.(.*\.)?(initializer|regularizer)",
        _is_list,
    ),
    OldKey(
        '`"text_field_embedder": {"tokens": {...}}`',
        '`{"token_embedders": {...}}` around the embedders',
        r"model\.(.*\.)?text_field_embedder",
        lambda value: (
            isinstance(value, dict) and not {"type", "token_embedders", "_pretrained"} & value.keys()
        ),
    ),
    OldKey(
        '`"allow_unmatched_keys"`, `"embedder_to_indexer_map"`',
        "needless: an embedder and its indexer have the same name",
        r"model\.(.*\.)?(allow_unmatched_keys|embedder_to_indexer_map)",
    ),
    OldKey(
        '`"similarity_function"`', '`"matrix_attention"`, with the same block', r"model\.similarity_function"
    ),
    OldKey(
        '`"tokenizer": {"type": "word", "word_splitter": {"type": "just_spaces"}}`',
        '`{"type": "just_spaces"}`, the splitter itself; by default `spacy`',
        r"(validation_)?dataset_reader\.(.*\.)?tokenizer",
        lambda value: isinstance(value, dict) and (value.get("type") == "word" or "word_splitter" in value),
    ),
    OldKey(
        '`"directory_path"` and `"extend"` of `vocabulary`',
        '`{"type": "from_files", "directory": ...}`, or `{"type": "extend", "directory": ...}`',
        "vocabulary",
        lambda value: isinstance(value, dict) and bool({"directory_path", "extend"} & value.keys()),
    ),
    OldKey(
        'a list as `"cuda_device"` of the trainer',
        '`"distributed": {"cuda_devices": [0, 1]}`, next to the trainer',
        r"trainer\.cuda_device",
        _is_list,
    ),
)


@contextmanager
def old_keys_named(config: dict[str, Any]) -> Iterator[None]:
    """Names the old keys of a config in the error of what is built from it, except for errors of its data."""
    try:
        yield
    except (ConfigurationError, ElmoError, TypeError, ValueError, KeyError, AttributeError) as error:
        old = [
            f"{path}, now {key.now.replace('`', '')}"
            for path, value in _values(config)
            for key in OLD_KEYS
            if key.is_of(path, value)
        ]
        of_data = isinstance(error, ElmoError) and error.where
        if not old or of_data or isinstance(error, OldKeysError):
            raise
        reason = shorten(str(error), 120)
        raise OldKeysError(f"keys of AllenNLP before 1.0: {'; '.join(old)} ({reason})") from error


class OldKeysError(ConfigError):
    """The error of a config with old keys."""


def _values(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values of a config with the keys that lead to them."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        inner = f"{path}.{key}" if path else str(key)
        yield inner, part
        yield from _values(part, inner)
