"""Entities of plain or tokenised text, from JSON Lines."""

from typing import Optional

from allennlp.common import JsonDict
from allennlp.data import DatasetReader, Instance
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_tasks.modules.json_lines_predictor import JsonLinesPredictor, require, require_tokens
from elmo_tasks.modules.tokenization import Words, joined, tokenizer

_EXPECTED = '"sentence": a string, or "tokens": a list of strings'


@Predictor.register("elmo_ner")
class NerPredictor(JsonLinesPredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`. Out: `tokens`, `tags` (IOB2) and `entities`: `text`,
    `type`, `token_start`, `token_end`, `char_start`, `char_end` (half-open; characters of the sentence, or
    of the tokens joined by blanks) and `probability`: of just this entity, under the CRF.

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
        """The entities of one sentence."""
        return self.predict_json({"sentence": sentence})

    def empty_result(self, json_dict: JsonDict) -> JsonDict | None:
        words = self._words(json_dict)
        return None if words.words else {"tokens": [], "tags": [], "entities": []}

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        words = self._words(json_dict)
        return self._dataset_reader.text_to_instance(words.words, text=words.text, offsets=words.offsets)

    def _words(self, json_dict: JsonDict) -> Words:
        if "tokens" not in json_dict:
            return self._tokenize(require(json_dict, "sentence", str, _EXPECTED))
        return joined(require_tokens(json_dict, _EXPECTED))
