"""The sentiment of plain or tokenised sentences, from JSON Lines."""

from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.data.tokenization import Words
from elmo_tasks.pipeline.gradients import with_label
from elmo_tasks.pipeline.predictor import SentencePredictor
from elmo_tasks.sst.model import SstResult


@Predictor.register("elmo_sst")
class SstPredictor(SentencePredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`. Out: `tokens`, the most probable `label`, the
    `probabilities` by label, and the `attention`: for each token its weight in the self-attentive pooling.
    Without words the label is `null`, and the others are empty.
    """

    def empty_result(self, content: Words) -> SstResult | None:
        return None if content.words else SstResult([], None, {}, [])

    def to_instance(self, content: Words) -> Instance:
        return self._dataset_reader.text_to_instance(content.words)

    def predictions_to_labeled_instances(self, instance: Instance, outputs: JsonDict) -> list[Instance]:
        return [with_label(instance, outputs["label"], self._model.vocab)]
