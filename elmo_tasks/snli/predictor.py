"""The relation of two sentences, from JSON Lines."""

from allennlp.predictors import Predictor

from elmo_tasks.pipeline.predictor import LabelPredictor
from elmo_tasks.snli.model import SnliResult


@Predictor.register("elmo_snli")
class SnliPredictor(LabelPredictor):
    """
    In: `{"premise": "...", "hypothesis": "..."}`, or lists of tokens: `premise_tokens`, `hypothesis_tokens`.
    Out: `label`, `probabilities` by label, `premise_tokens`, `hypothesis_tokens`, and the alignments, whose
    rows add up to 1: `premise_to_hypothesis`, with a row over the hypothesis for each token of the premise,
    and `hypothesis_to_premise`. If a sentence has no words, the label is `null`, and probabilities and
    alignments are empty.
    """

    def text_names(self) -> dict[str, str]:
        return {name: f"{name}_tokens" for name in ("premise", "hypothesis")}

    def empty_result(self, content: list[list[str]]) -> SnliResult | None:
        premise, hypothesis = content
        return None if all(content) else SnliResult(None, {}, premise, hypothesis, [], [])
