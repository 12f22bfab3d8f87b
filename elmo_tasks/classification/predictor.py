"""The class of sentences and of pairs of sentences, from JSON Lines."""

from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.classification.model import ClassificationResult, LabelsResult
from elmo_tasks.data.fields import ClosedLabelsField
from elmo_tasks.pipeline.gradients import labelled
from elmo_tasks.pipeline.predictor import LabelPredictor


@Predictor.register("elmo_classifier")
class ClassificationPredictor(LabelPredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`; for pairs `{"sentence1": "...", "sentence2": "..."}`, or
    a list of words as `sentence1_tokens`, `sentence2_tokens`. The archive's tokenizer splits text.

    Out: `sentence1_tokens`, for pairs `sentence2_tokens`, `label`, and `probabilities` by label. If a
    sentence has no words, the label is `null`, and the probabilities are empty. A model with `several_labels`
    gives `labels`, a list, in place of `label`.
    """

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("labels",) if self._dataset_reader.gives_several else LabelPredictor.columns

    def text_names(self) -> dict[str, str]:
        if self._dataset_reader.pairs:
            return {name: f"{name}_tokens" for name in ("sentence1", "sentence2")}
        return {"sentence": "tokens"}

    def empty_result(self, content: list[list[str]]) -> ClassificationResult | LabelsResult | None:
        if all(content):
            return None
        sentence1, sentence2 = content if self._dataset_reader.pairs else (content[0], None)
        if self._dataset_reader.gives_several:
            return LabelsResult(sentence1, sentence2, [], {})
        return ClassificationResult(sentence1, sentence2, None, {})

    def predictions_to_labeled_instances(self, instance: Instance, outputs: JsonDict) -> list[Instance]:
        if not self._dataset_reader.gives_several:
            return super().predictions_to_labeled_instances(instance, outputs)
        classes = list(self._model.vocab.get_token_to_index_vocabulary("labels"))
        return [labelled(instance, label=ClosedLabelsField(outputs["labels"], classes))]
