"""The relation of two sentences, from JSON Lines."""

from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.predictors.interpretation import InterpretablePredictor
from elmo_tasks.predictors.text import require_text


@Predictor.register("elmo_snli")
class SnliPredictor(InterpretablePredictor):
    """
    In: `{"premise": "...", "hypothesis": "..."}`, or lists of tokens: `premise_tokens`, `hypothesis_tokens`.
    Out: `label`, `probabilities` by label, `premise_tokens`, `hypothesis_tokens`, and the alignments, whose
    rows add up to 1: `premise_to_hypothesis`, with a row over the hypothesis for each token of the premise,
    and `hypothesis_to_premise`. If a sentence has no words, the label is `null`, and probabilities and
    alignments are empty.
    """

    forms = (
        {"premise": str, "hypothesis": str},
        {"premise_tokens": list[str], "hypothesis_tokens": list[str]},
    )

    def predict(self, premise: str, hypothesis: str) -> JsonDict:
        """Returns the relation of one pair."""
        return self.predict_json({"premise": premise, "hypothesis": hypothesis})

    def read(self, json_dict: JsonDict) -> list[list[str]]:
        """Returns the words of the premise and of the hypothesis."""
        texts = [require_text(json_dict, name, f"{name}_tokens") for name in ("premise", "hypothesis")]
        return [[token.text for token in self._dataset_reader.tokens(text)] for text in texts]

    def empty_result(self, content: list[list[str]]) -> JsonDict | None:
        if all(content):
            return None
        premise, hypothesis = content
        return {
            "label": None,
            "probabilities": {},
            "premise_tokens": premise,
            "hypothesis_tokens": hypothesis,
            "premise_to_hypothesis": [],
            "hypothesis_to_premise": [],
        }

    def to_instance(self, content: list[list[str]]) -> Instance:
        return self._dataset_reader.text_to_instance(*content)

    def predictions_to_labeled_instances(self, instance: Instance, outputs: JsonDict) -> list[Instance]:
        return self._with_label(instance, outputs["label"])
