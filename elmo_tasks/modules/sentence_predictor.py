"""Predictors of a single sentence, plain or tokenised."""

from typing import Optional

from allennlp.common import JsonDict
from allennlp.data import DatasetReader
from allennlp.models import Model

from elmo_tasks.modules.json_lines_predictor import JsonLinesPredictor, require, require_tokens
from elmo_tasks.modules.tokenization import Words, joined, tokenizer

_EXPECTED = '"sentence": a string, or "tokens": a list of strings'


class SentencePredictor(JsonLinesPredictor):
    """
    Base class of predictors that read `{"sentence": "..."}` or `{"tokens": [...]}`.

    # Parameters

    spacy_model : name of an installed spaCy model whose tokenizer is used for `sentence`; the tokenizer of
        blank English by default.
    """

    def __init__(
        self,
        model: Model,
        dataset_reader: DatasetReader,
        frozen: bool = True,
        spacy_model: Optional[str] = None,
    ) -> None:
        super().__init__(model, dataset_reader, frozen)
        self._tokenize = tokenizer(spacy_model)

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
