"""The class of sentences and of pairs of sentences, from JSON Lines."""

from allennlp.predictors import Predictor

from elmo_tasks.classification.model import ClassificationResult
from elmo_tasks.pipeline.predictor import LabelPredictor


@Predictor.register("elmo_classifier")
class ClassificationPredictor(LabelPredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`; for pairs `{"sentence1": "...", "sentence2": "..."}`, or
    a list of words as `sentence1_tokens`, `sentence2_tokens`. The archive's tokenizer splits text.

    Out: `sentence1_tokens`, for pairs `sentence2_tokens`, `label`, and `probabilities` by label. If a
    sentence has no words, the label is `null`, and the probabilities are empty.
    """

    def text_names(self) -> dict[str, str]:
        if self._dataset_reader.pairs:
            return {name: f"{name}_tokens" for name in ("sentence1", "sentence2")}
        return {"sentence": "tokens"}

    def empty_result(self, content: list[list[str]]) -> ClassificationResult | None:
        if all(content):
            return None
        sentence1, sentence2 = content if self._dataset_reader.pairs else (content[0], None)
        return ClassificationResult(sentence1, sentence2, None, {})
