"""Answers to questions about passages, from JSON Lines."""

from dataclasses import replace
from typing import Annotated, Any, ClassVar, cast

import torch
from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance
from allennlp.data.fields import TensorField, TextField
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Range
from elmo_tasks.data.fields import Metadata
from elmo_tasks.data.tokenization import Words, join_words
from elmo_tasks.predictors.interpretation import InterpretablePredictor, labelled, words_of
from elmo_tasks.predictors.text import require
from elmo_tasks.squad.model import N_BEST, PLACE
from elmo_tasks.squad.reader import NO_SPAN, SquadQuestion, split_words

_EXPECTED = '"passage" and "question": strings'
_ATTENTION = ("passage_tokens", "question_tokens", "question_attention", "self_attention")


@Predictor.register("elmo_squad")
class SquadPredictor(StrictParams, InterpretablePredictor):
    """
    In: `{"passage": "...", "question": "..."}`. Out: `answer`, text of the passage; `token_start`,
    `token_end`, `char_start`, `char_end` (half-open); `probability`; and `n_best`: the best answers with the
    same keys, and `text` for `answer`. Where the model says that there is no answer, the text is empty and
    its place null; where the passage or the question has no words, the probability is null too, and `n_best`
    is empty. Of a passage longer than the model's window, answers in all windows are compared with each
    other.

    # Parameters

    n_best : number of answers, at most; up to 20.
    attention : add `passage_tokens` and `question_tokens`, and for each token of the passage a row, which
        adds up to 1: `question_attention` over the question, `self_attention` over the passage.
    """

    forms = ({"passage": str, "question": str},)
    optional_fields: ClassVar[dict[str, Any]] = {"id": str}

    def __init__(
        self,
        model: Model,
        dataset_reader: DatasetReader,
        frozen: bool = True,
        n_best: Annotated[int, Range(1, N_BEST)] = 5,
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

    def read(self, json_dict: JsonDict) -> JsonDict:
        """The texts of an input, and its id."""
        texts = {name: require(json_dict, name, str, _EXPECTED) for name in ("passage", "question")}
        return {**texts, "id": json_dict.get("id")}

    def empty_result(self, content: JsonDict) -> JsonDict | None:
        if content["passage"].strip() and content["question"].strip():
            return None
        passage, question = split_words(content["passage"]), split_words(content["question"])
        return self._shown(
            {
                "id": content["id"],
                "answer": "",
                **dict.fromkeys((*PLACE, "probability")),
                "n_best": [],
                "passage_tokens": passage.words,
                "question_tokens": question.words,
                "question_attention": torch.zeros(0, 0),
                "self_attention": torch.zeros(0, 0),
                "window_start": torch.zeros(0, dtype=torch.long),
            }
        )

    def to_instance(self, content: JsonDict) -> Instance:
        return self._dataset_reader.text_to_instance(**content)

    def predictions_to_labeled_instances(self, instance: Instance, outputs: JsonDict) -> list[Instance]:
        first, end = outputs["token_start"], outputs["token_end"]
        span = torch.tensor(NO_SPAN if first is None else (first, end - 1))
        return [labelled(instance, span=TensorField(span, padding_value=-1))]

    def metadata_of(self, instance: Instance) -> Metadata:
        """
        See `InterpretablePredictor.metadata_of`.

        # Raises
        `ConfigurationError`: words were taken out of the passage, in which the answer has its place.
        """
        before = cast(SquadQuestion, instance["metadata"].metadata)
        if (found := len(instance["passage"])) != len(before):
            raise ConfigurationError(
                f"found a passage of {found} tokens where it had {len(before)}, but the answer is a place in "
                "it; expected the question to be reduced"
            )
        first, last = cast(TensorField, instance["span"]).tensor.tolist()
        passage = _placed(instance["passage"], before.passage)
        answer = passage.text[passage.offsets[first][0] : passage.offsets[last][1]] if first >= 0 else None
        question = _placed(instance["question"], before.question)
        answers = [] if answer is None else [answer]
        return replace(before, passage=passage, question=question, answers=answers)

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


def _placed(field: Any, before: Words) -> Words:
    """The words of a text, and their places: those that they had if they are the same."""
    words = words_of(cast(TextField, field))
    return before if words == before.words else join_words(words)


def _whole(rows: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """*Shape:* `(tokens, window)`, where the window of each row starts `(tokens,)`, to `(tokens, tokens)`."""
    tokens, window = rows.shape
    columns = start.unsqueeze(1) + torch.arange(window, device=start.device)
    return rows.new_zeros(tokens, tokens + window).scatter_(1, columns, rows)[:, :tokens]
