"""Predictors of a single sentence, plain or tokenised."""

from typing import Any

from allennlp.common import JsonDict

from elmo_tasks.data.tokenization import Words, joined
from elmo_tasks.predictors.fields import require_text
from elmo_tasks.predictors.text import TextPredictor


class SentencePredictor(TextPredictor):
    """Base class of predictors that read `{"sentence": "..."}` or `{"tokens": [...]}`."""

    forms = ({"sentence": str}, {"tokens": list[str]})

    def predict(self, sentence: str) -> JsonDict:
        """The result of one sentence."""
        return self.predict_json({"sentence": sentence})

    def read(self, json_dict: JsonDict) -> Any:
        return self.words(json_dict)

    def words(self, json_dict: JsonDict) -> Words:
        """
        The words of an input.

        # Raises
        `ConfigurationError` with what was found, if it has neither field, or one of another type.
        """
        sentence = require_text(json_dict, "sentence", "tokens")
        return self._tokenize(sentence) if isinstance(sentence, str) else joined(sentence)
