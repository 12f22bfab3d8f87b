"""The class of sentences and of pairs of sentences, from JSON Lines."""

from typing import Any, Optional

from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.predictors.interpretation import InterpretablePredictor
from elmo_tasks.predictors.text import require_text


@Predictor.register("elmo_classifier")
class ClassificationPredictor(InterpretablePredictor):
    """
    In: `{"sentence": "..."}` or `{"tokens": [...]}`; for pairs `{"sentence1": "...", "sentence2": "..."}`, or
    a list of words as `sentence1_tokens`, `sentence2_tokens`. The archive's tokenizer splits text.

    Out: `sentence1_tokens`, for pairs `sentence2_tokens`, `label`, and `probabilities` by label. If a
    sentence has no words, the label is `null`, and the probabilities are empty.
    """

    def predict(self, sentence1: str, sentence2: Optional[str] = None) -> JsonDict:
        """Returns the class of one sentence, or of one pair."""
        if sentence2 is None:
            return self.predict_json({"sentence": sentence1})
        return self.predict_json({"sentence1": sentence1, "sentence2": sentence2})

    @property
    def forms(self) -> tuple[dict[str, Any], ...]:  # type: ignore[override]
        names = self._names()
        return dict.fromkeys(names, str), dict.fromkeys(names.values(), list[str])

    def read(self, json_dict: JsonDict) -> list[list[str]]:
        """Returns the words of each sentence."""
        texts = [require_text(json_dict, *fields) for fields in self._names().items()]
        return [[token.text for token in self._dataset_reader.tokens(text)] for text in texts]

    def empty_result(self, content: list[list[str]]) -> JsonDict | None:
        if all(content):
            return None
        words = {f"sentence{number}_tokens": words for number, words in enumerate(content, start=1)}
        return {**words, "label": None, "probabilities": {}}

    def to_instance(self, content: list[list[str]]) -> Instance:
        return self._dataset_reader.text_to_instance(*content)

    def predictions_to_labeled_instances(self, instance: Instance, outputs: JsonDict) -> list[Instance]:
        return self._with_label(instance, outputs["label"])

    def _names(self) -> dict[str, str]:
        """Returns for the field of each text the field of its words."""
        if self._dataset_reader.pairs:
            return {name: f"{name}_tokens" for name in ("sentence1", "sentence2")}
        return {"sentence": "tokens"}
