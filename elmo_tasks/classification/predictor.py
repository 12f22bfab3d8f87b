"""The class of sentences and of pairs of sentences, from JSON Lines."""

from allennlp.common import JsonDict
from allennlp.predictors import Predictor

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

    def predict(self, sentence1: str, sentence2: str | None = None) -> JsonDict:
        """Returns the class of one sentence, or of one pair."""
        if sentence2 is None:
            return self.predict_json({"sentence": sentence1})
        return self.predict_json({"sentence1": sentence1, "sentence2": sentence2})

    def empty_result(self, content: list[list[str]]) -> JsonDict | None:
        if all(content):
            return None
        words = {f"sentence{i}_tokens": words for i, words in enumerate(content, start=1)}
        return {**words, "label": None, "probabilities": {}}
