"""The relation of two sentences, from JSON Lines."""

from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_tasks.predictors.interpretation import InterpretablePredictor
from elmo_tasks.predictors.json_lines import require_text
from elmo_tasks.snli.reader import SnliPair


@Predictor.register("elmo_snli")
class SnliPredictor(InterpretablePredictor):
    """
    In: `{"premise": "...", "hypothesis": "..."}`, or lists of tokens: `premise_tokens`, `hypothesis_tokens`.
    Out: `label`, `probabilities` by label, `premise_tokens`, `hypothesis_tokens`, and the alignments, whose
    rows add up to 1: `premise_to_hypothesis`, for each token of the premise a row over those of the
    hypothesis, and `hypothesis_to_premise`.
    """

    forms = (
        {"premise": str, "hypothesis": str},
        {"premise_tokens": list[str], "hypothesis_tokens": list[str]},
    )

    def predict(self, premise: str, hypothesis: str) -> JsonDict:
        """The relation of one pair."""
        return self.predict_json({"premise": premise, "hypothesis": hypothesis})

    def to_instance(self, content: JsonDict) -> Instance:
        premise, hypothesis = (
            require_text(content, name, f"{name}_tokens") for name in ("premise", "hypothesis")
        )
        return self._dataset_reader.text_to_instance(premise, hypothesis)

    def predictions_to_labeled_instances(self, instance: Instance, outputs: JsonDict) -> list[Instance]:
        return self._with_label(instance, outputs["label"])

    def metadata_of(self, instance: Instance) -> SnliPair:
        return SnliPair(*self.texts(instance))
