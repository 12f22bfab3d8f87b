"""Which words a prediction rests on, by AllenNLP's saliency interpreters."""

import math
from typing import Any

from allennlp.common import JsonDict
from allennlp.interpret.saliency_interpreters import SaliencyInterpreter
from allennlp.predictors import Predictor

from elmo_tasks.predictors.interpretation import InterpretablePredictor

# AllenNLP's simple gradient multiplies by the vector of the first word alone; so it is not the default.
METHODS = ("integrated-gradient", "simple-gradient", "smooth-gradient")


class Explainer:
    """
    # Parameters

    predictor : one that `can_explain`.
    method : one of `METHODS`.
    """

    def __init__(self, predictor: InterpretablePredictor, method: str = METHODS[0]) -> None:
        self._predictor = predictor
        self._interpreter = SaliencyInterpreter.by_name(method)(predictor)

    def __call__(self, json_dict: JsonDict) -> dict[str, Any]:
        """
        Returns of an input an object: `result`, as `allennlp predict` has it; and `explanations`, of each
        prediction a list with an object for each text that the model reads: its `tokens` and their `shares`,
        which add up to 1. There are none of an input without words.

        # Raises
        `ConfigurationError`: an input that the predictor cannot read.
        """
        result = self._predictor.predict_json(json_dict)
        content = self._predictor.read(json_dict)
        if self._predictor.empty_result(content) is not None:
            return {"result": result, "explanations": []}
        texts = self._predictor.texts(self._predictor.to_instance(content))
        return {"result": result, "explanations": self._explanations(json_dict, texts)}

    def _explanations(self, json_dict: JsonDict, texts: list[list[str]]) -> list[list[dict[str, Any]]]:
        return [
            [
                {"tokens": words, "shares": [_finite(share) for share in gradients[f"grad_input_{number}"]]}
                # AllenNLP counts the texts from the last one
                for number, words in zip(range(len(texts), 0, -1), texts, strict=True)
            ]
            for gradients in self._interpreter.saliency_interpret_from_json(json_dict).values()
        ]


def can_explain(predictor: Predictor) -> bool:
    """Not that of a task without explanations, and not an ensemble's."""
    explains = type(predictor).predictions_to_labeled_instances
    return explains is not Predictor.predictions_to_labeled_instances and hasattr(predictor._model, "embed")


def _finite(share: float) -> float:
    """0 where all gradients of a text are, so that they have no shares."""
    return share if math.isfinite(share) else 0.0
