"""The vector of a sentence, from JSON Lines."""

from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.data.tokenization import Words
from elmo_tasks.pipeline.predictor import SentencePredictor
from elmo_tasks.sentence.model import SentenceResult


@Predictor.register("elmo_sentence")
class SentenceVectorPredictor(SentencePredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`. Out: `tokens`, the `vector`, and `scores` of the labels
    of sentences that the model has learned; zeros without words.
    """

    def empty_result(self, content: Words) -> SentenceResult | None:
        return None if content.words else self._model.first.empty_result()

    def to_instance(self, content: Words) -> Instance:
        return self._dataset_reader.text_to_instance(content.words)
