"""Answers to questions about passages, from JSON Lines."""

from typing import Any

import torch
from allennlp.common import JsonDict
from allennlp.data import DatasetReader, Instance
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_tasks.predictors.json_lines import JsonLinesPredictor, require

_EXPECTED = '"passage" and "question": strings'
_ATTENTION = ("passage_tokens", "question_tokens", "question_attention", "self_attention")


@Predictor.register("elmo_squad")
class SquadPredictor(JsonLinesPredictor):
    """
    In: `{"passage": "...", "question": "..."}`. Out: `answer`, text of the passage; `token_start`,
    `token_end`, `char_start`, `char_end` (half-open); `probability`; and `n_best`: the best answers with the
    same keys, and `text` for `answer`. Where the model says that there is no answer, the text is empty and
    its place null. Of a passage longer than the model's window, answers in all windows are compared with each
    other.

    # Parameters

    n_best : number of answers, at most.
    attention : add `passage_tokens` and `question_tokens`, and for each token of the passage a row, which
        adds up to 1: `question_attention` over the question, `self_attention` over the passage.
    """

    def __init__(
        self,
        model: Model,
        dataset_reader: DatasetReader,
        frozen: bool = True,
        n_best: int = 5,
        attention: bool = False,
    ) -> None:
        super().__init__(model, dataset_reader, frozen)
        self._n_best = n_best
        self._attention = attention

    def predict(self, passage: str, question: str) -> JsonDict:
        """The answer to one question."""
        return self.predict_json({"passage": passage, "question": question})

    def predict_instance(self, instance: Instance) -> JsonDict:
        return self.predict_batch_instance([instance])[0]

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        for instance in instances:
            self._dataset_reader.apply_token_indexers(instance)
        return [self._shown(output) for output in self._model.forward_on_instances(instances)]

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        passage, question = (require(json_dict, name, str, _EXPECTED) for name in ("passage", "question"))
        return self._dataset_reader.text_to_instance(passage, question, id=json_dict.get("id"))

    def _shown(self, output: dict[str, Any]) -> JsonDict:
        """The prediction for a question, ready for JSON."""
        output["n_best"] = output["n_best"][: self._n_best]
        if output["id"] is None:
            del output["id"]
        start = output.pop("window_start")
        if not self._attention:
            return {name: value for name, value in output.items() if name not in _ATTENTION}
        output["self_attention"] = _whole(output["self_attention"], start).tolist()
        output["question_attention"] = output["question_attention"].tolist()
        return output


def _whole(rows: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """*Shape:* `(tokens, window)`, where the window of each row starts `(tokens,)`, to `(tokens, tokens)`."""
    tokens, window = rows.shape
    columns = start.unsqueeze(1) + torch.arange(window, device=start.device)
    return rows.new_zeros(tokens, tokens + window).scatter_(1, columns, rows)[:, :tokens]
