"""Predictors of plain text, which they split into words, and checks of the fields that predictors read."""

import json
import logging
from itertools import chain
from typing import Any, Optional

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Vocabulary
from allennlp.models import Model

from elmo_tasks.data import tokenization
from elmo_tasks.data.input_files import shorten
from elmo_tasks.data.reader import join_words
from elmo_tasks.data.tokenization import TokenizerChoice, is_split_into_characters
from elmo_tasks.predictors.interpretation import InterpretablePredictor

logger = logging.getLogger(__name__)


class TextPredictor(InterpretablePredictor):
    """
    Base class of predictors that have a tokenizer.

    # Parameters

    tokenizer : splits plain text, see `chosen_tokenizer`. By default it is the reader's; or `characters`, if
        the words of the archive's vocabulary are single Chinese, Japanese or Korean characters; or else
        spaCy's rules for English.
    spacy_model : an installed spaCy model, as `tokenizer`.
    """

    def __init__(
        self,
        model: Model,
        dataset_reader: DatasetReader,
        frozen: bool = True,
        spacy_model: Optional[str] = None,
        tokenizer: Optional[TokenizerChoice] = None,
    ) -> None:
        super().__init__(model, dataset_reader, frozen)
        self._spacy_model = spacy_model
        choice = tokenizer or spacy_model or getattr(self._dataset_reader, "tokenizer", None)
        self._tokenize = tokenization.tokenizer(choice or self._choice())

    def _choice(self) -> str | None:
        """Returns the tokenizer with which the archive's data was split, as far as its words tell."""
        vocab = getattr(self._model, "vocab", None) or Vocabulary()
        indexers = getattr(self._dataset_reader, "_token_indexers", {}).values()
        words = [vocab.get_token_to_index_vocabulary(each.namespace) for each in indexers if each.namespace]
        if not is_split_into_characters(chain.from_iterable(words)):
            return None
        logger.info("the model's words are single characters: text is split into characters")
        return "characters"


class SentencePredictor(TextPredictor):
    """Base class of predictors that read `{"sentence": "..."}` or `{"tokens": [...]}`."""

    forms = ({"sentence": str}, {"tokens": list[str]})

    def predict(self, sentence: str) -> JsonDict:
        """Returns the result for one sentence."""
        return self.predict_json({"sentence": sentence})

    def read(self, json_dict: JsonDict) -> Any:
        """Returns the words of an input; for errors see `require_text`."""
        sentence = require_text(json_dict, "sentence", "tokens")
        return self._tokenize(sentence) if isinstance(sentence, str) else join_words(sentence)


class LabelPredictor(InterpretablePredictor):
    """Base class of predictors of the class of a text, or of two, each plain or a list of words."""

    def text_names(self) -> dict[str, str]:
        """Returns for the field of each text the field of its words."""
        raise NotImplementedError

    @property
    def forms(self) -> tuple[dict[str, Any], ...]:  # type: ignore[override]
        names = self.text_names()
        return dict.fromkeys(names, str), dict.fromkeys(names.values(), list[str])

    def read(self, json_dict: JsonDict) -> list[list[str]]:
        """Returns the words of each text."""
        texts = [require_text(json_dict, *fields) for fields in self.text_names().items()]
        return [[token.text for token in self._dataset_reader.tokens(text)] for text in texts]

    def to_instance(self, content: list[list[str]]) -> Instance:
        return self._dataset_reader.text_to_instance(*content)

    def predictions_to_labeled_instances(self, instance: Instance, outputs: JsonDict) -> list[Instance]:
        return self._with_label(instance, outputs["label"])


def require(json_dict: JsonDict, name: str, kind: type, expected: str) -> Any:
    """
    Returns the value of a field, a tuple as a list; `ConfigurationError` if it is missing, or of another
    type.
    """
    if name not in json_dict:
        found = ", ".join(f'"{key}"' for key in json_dict) or "none"
        raise ConfigurationError(f"found the fields: {found}; expected {expected}")
    value = list(json_dict[name]) if isinstance(json_dict[name], tuple) else json_dict[name]
    if not isinstance(value, kind):
        found = shorten(json.dumps(value, default=repr))
        raise ConfigurationError(f'"{name}" is {found}; expected {expected}')
    return value


def require_text(json_dict: JsonDict, text: str, tokens: str) -> str | list[str]:
    """Returns the words in the field `tokens`, or else the field `text`; for errors see `require`."""
    expected = f'"{text}": a string, or "{tokens}": a list of strings'
    if tokens in json_dict:
        return require_tokens(json_dict, expected, tokens)
    return require(json_dict, text, str, expected)


def require_tokens(json_dict: JsonDict, expected: str, name: str = "tokens") -> list[str]:
    """Returns the list of strings in the field `name`; for errors see `require`."""
    words = require(json_dict, name, list, expected)
    for position, word in enumerate(words):
        if not isinstance(word, str):
            found = shorten(repr(word))
            raise ConfigurationError(f'"{name}" has {found} at position {position}; expected strings')
    return words
