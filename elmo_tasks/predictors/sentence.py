"""Predictors of a single sentence, plain or tokenised."""

from allennlp.common import JsonDict

from elmo_tasks.data.tokenization import Words, joined
from elmo_tasks.predictors.json_lines import require, require_tokens
from elmo_tasks.predictors.text import TextPredictor

_EXPECTED = '"sentence": a string, or "tokens": a list of strings'


class SentencePredictor(TextPredictor):
    """Base class of predictors that read `{"sentence": "..."}` or `{"tokens": [...]}`."""

    forms = ({"sentence": str}, {"tokens": list[str]})

    def predict(self, sentence: str) -> JsonDict:
        """The result of one sentence."""
        return self.predict_json({"sentence": sentence})

    def words(self, json_dict: JsonDict) -> Words:
        """
        The words of an input.

        # Raises
        `ConfigurationError` with what was found, if it has neither field, or one of another type.
        """
        if "tokens" not in json_dict:
            return self._tokenize(require(json_dict, "sentence", str, _EXPECTED))
        return joined(require_tokens(json_dict, _EXPECTED))
