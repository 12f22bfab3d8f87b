"""Predictors of plain text, which they split into words, and checks of the fields that predictors read."""

import json
from typing import Any, Optional

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.models import Model

from elmo_tasks.data.json_lines import shorten
from elmo_tasks.data.tokenization import Words, join_words, tokenizer
from elmo_tasks.predictors.interpretation import InterpretablePredictor


class TextPredictor(InterpretablePredictor):
    """
    Base class of predictors that have a tokenizer.

    # Parameters

    spacy_model : name of an installed spaCy model whose tokenizer splits plain text; the tokenizer of blank
        English by default.
    """

    def __init__(
        self,
        model: Model,
        dataset_reader: DatasetReader,
        frozen: bool = True,
        spacy_model: Optional[str] = None,
    ) -> None:
        super().__init__(model, dataset_reader, frozen)
        self._spacy_model = spacy_model
        self._tokenize = tokenizer(spacy_model)


class SentencePredictor(TextPredictor):
    """Base class of predictors that read `{"sentence": "..."}` or `{"tokens": [...]}`."""

    forms = ({"sentence": str}, {"tokens": list[str]})

    def predict(self, sentence: str) -> JsonDict:
        """Returns the result for one sentence."""
        return self.predict_json({"sentence": sentence})

    def read(self, json_dict: JsonDict) -> Any:
        return self.words(json_dict)

    def words(self, json_dict: JsonDict) -> Words:
        """
        Returns the words of an input.

        # Raises
        See `require_text`.
        """
        sentence = require_text(json_dict, "sentence", "tokens")
        return self._tokenize(sentence) if isinstance(sentence, str) else join_words(sentence)


def require(json_dict: JsonDict, name: str, kind: type, expected: str) -> Any:
    """
    Returns the value of a field.

    # Raises
    `ConfigurationError`: the field is missing, or of another type.
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
    Returns the words in the field `tokens`, or else the value of the field `text`.

    # Raises
    `ConfigurationError`: both fields are missing, or the field is of another type.
    """
    expected = f'"{text}": a string, or "{tokens}": a list of strings'
    if tokens in json_dict:
        return require_tokens(json_dict, expected, tokens)
    return require(json_dict, text, str, expected)


def require_tokens(json_dict: JsonDict, expected: str, name: str = "tokens") -> list[str]:
    """
    Returns the value of the field `name`.

    # Raises
    `ConfigurationError`: the field is missing, or no list of strings.
    """
    words = require(json_dict, name, list, expected)
    for position, word in enumerate(words):
        if not isinstance(word, str):
            found = shorten(repr(word))
            raise ConfigurationError(f'"{name}" has {found} at position {position}; expected strings')
    return words
