"""Explanations of predictions by the shares of their words, made of gradients."""

from typing import Any

import numpy as np
from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.interpret.saliency_interpreters import SaliencyInterpreter
from allennlp.predictors import Predictor

from elmo_tasks.pipeline.predictor import TaskPredictor

# AllenNLP's simple gradient multiplies by the vector of the first word alone; so it is not the default.
METHODS = ("integrated-gradient", "simple-gradient", "smooth-gradient")


class Explainer:
    """Explains predictions of a predictor that `can_explain`, by the shares of their words."""

    def __init__(self, predictor: TaskPredictor, method: str = METHODS[0]) -> None:
        self._predictor = predictor
        self._interpreter = SaliencyInterpreter.by_name(method)(predictor)

    def __call__(self, json_dict: JsonDict) -> dict[str, Any]:
        """
        Returns the `result` of an input, as in `allennlp predict`, and its `explanations`: for each
        prediction a list with an object for each text that the model reads, its `tokens` and their `shares`,
        which add up to 1. An input without words has none.
        """
        result = self._predictor.predict_json(json_dict)
        instance = self._predictor.example(json_dict)
        if not isinstance(instance, Instance):
            return {"result": result, "explanations": []}
        texts = self._predictor.gradients.texts(instance)
        explanations = [
            [
                {
                    "tokens": words,
                    "shares": np.nan_to_num(gradients[f"grad_input_{index}"], posinf=0, neginf=0).tolist(),
                }
                # AllenNLP numbers the texts from the last one.
                for index, words in zip(range(len(texts), 0, -1), texts, strict=True)
            ]
            for gradients in self._interpreter.saliency_interpret_from_json(json_dict).values()
        ]
        return {"result": result, "explanations": explanations}


def can_explain(predictor: Predictor) -> bool:
    """Returns whether the task has explanations, and the model is not an ensemble."""
    explains = type(predictor).predictions_to_labeled_instances
    return explains is not Predictor.predictions_to_labeled_instances and hasattr(predictor._model, "embed")
