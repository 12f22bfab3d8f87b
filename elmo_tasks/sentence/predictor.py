"""The vector of a sentence, from JSON Lines."""

import numpy as np
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.data.tokenization import Words
from elmo_tasks.pipeline.predictor import SentencePredictor
from elmo_tasks.sentence.model import SentenceResult


@Predictor.register("elmo_sentence")
class SentenceVectorPredictor(SentencePredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`. Out: `tokens`, and the `vector`, zeros without words.
    """

    def empty_result(self, content: Words) -> SentenceResult | None:
        if content.words:
            return None
        return SentenceResult([], np.zeros(self._model.first.output_dim, dtype=np.float32))

    def to_instance(self, content: Words) -> Instance:
        return self._dataset_reader.text_to_instance(content.words)
