"""Entities of plain or tokenised text, from JSON Lines."""

from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.predictors.sentence import SentencePredictor


@Predictor.register("elmo_ner")
class NerPredictor(SentencePredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`. Out: `tokens`, `tags` (IOB2) and `entities`: `text`,
    `type`, `token_start`, `token_end`, `char_start`, `char_end` (half-open; characters of the sentence, or
    of the tokens joined by blanks) and `probability`: of just this entity, under the CRF.
    """

    def empty_result(self, json_dict: JsonDict) -> JsonDict | None:
        return None if self.words(json_dict).words else {"tokens": [], "tags": [], "entities": []}

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        words = self.words(json_dict)
        return self._dataset_reader.text_to_instance(words.words, text=words.text, offsets=words.offsets)
