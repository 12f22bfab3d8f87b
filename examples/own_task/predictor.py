"""Parts of speech of plain or tokenised sentences, from JSON Lines."""

from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.data.tokenization import Words
from elmo_tasks.pipeline.predictor import SentencePredictor

from .model import PosResult


@Predictor.register("own_pos")
class PosPredictor(SentencePredictor):
    """In: `{"sentence": "..."}` or `{"tokens": [...]}`. Out: `tokens` and `tags`."""

    def empty_result(self, content: Words) -> PosResult | None:
        return None if content.words else PosResult([], [])

    def to_instance(self, content: Words) -> Instance:
        return self._dataset_reader.text_to_instance(content.words)
