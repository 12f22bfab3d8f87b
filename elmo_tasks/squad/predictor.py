"""Answers to questions about passages, from JSON Lines."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, cast

import torch
from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance
from allennlp.data.fields import IndexField, TextField
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Probability, Range
from elmo_tasks.data.fields import Metadata
from elmo_tasks.data.reader import join_words
from elmo_tasks.data.tokenization import Words
from elmo_tasks.pipeline.gradients import Gradients, field_words, labelled
from elmo_tasks.pipeline.predictor import TaskPredictor, require
from elmo_tasks.pipeline.results import TaskResult
from elmo_tasks.squad.model import N_BEST, SquadResult
from elmo_tasks.squad.reader import NO_SPAN, SquadQuestion, span_fields

_INPUT_FIELDS = '"passage" and "question": strings'
_ATTENTION = ("passage_tokens", "question_tokens", "question_attention", "self_attention")


class SquadGradients(Gradients):
    """Gradients of the loss of the answer, whose question alone can change."""

    def metadata_of(self, instance: Instance) -> Metadata:
        """Raises `ConfigurationError` if the passage, in which the answer is a span, has lost words."""
        original = cast(SquadQuestion, instance["metadata"].metadata)
        if len(instance["passage"]) != len(original):
            raise ConfigurationError(
                "the answer is a span of the passage, so that only the question can change"
            )
        first, last = (cast(IndexField, instance[name]).sequence_index for name in ("span_start", "span_end"))
        passage = _words_after_change(instance["passage"], original.passage)
        question = _words_after_change(instance["question"], original.question)
        answers = [passage.text[passage.offsets[first][0] : passage.offsets[last][1]]] if first >= 0 else []
        return replace(original, passage=passage, question=question, answers=answers)


@Predictor.register("elmo_squad")
class SquadPredictor(StrictParams, TaskPredictor):
    """
    In: `{"passage": "...", "question": "..."}`. Out: `answer`, text of the passage; `token_start`,
    `token_end`, `char_start`, `char_end` (half-open); `probability`; `answerable`, the probability that the
    passage tells, or null from a model that does not know it; and `n_best`: the best answers with the keys up
    to `probability`, and `text` for `answer`. If the model finds no answer, the text is empty and its
    positions null; if the passage or the question has no words, the probabilities are null too, and `n_best`
    is empty. In a passage longer than the model's window, the answers of all windows compete.

    # Parameters

    n_best : maximum number of answers, up to 20.
    min_probability : with a lower `probability`, times `answerable`, `answer` is empty and its positions
        null; `n_best` stays.
    attention : also return `passage_tokens` and `question_tokens`, and for each token of the passage a row
        that adds up to 1: `question_attention` over the question, `self_attention` over the passage.
    """

    gradients_class = SquadGradients
    columns = ("answer", "char_start", "char_end", "probability")
    forms = ({"passage": str, "question": str},)
    optional_fields: ClassVar[Mapping[str, type]] = {"id": str}

    def __init__(
        self,
        model: Model,
        dataset_reader: DatasetReader,
        frozen: bool = True,
        n_best: Annotated[int, Range(1, N_BEST)] = 5,
        min_probability: Probability = 0.0,
        attention: bool = False,
    ) -> None:
        super().__init__(model, dataset_reader, frozen)
        self._n_best, self.min_probability = n_best, min_probability
        self._attention = attention

    def read(self, json_dict: JsonDict) -> JsonDict:
        texts = {name: require(json_dict, name, str, _INPUT_FIELDS) for name in ("passage", "question")}
        return {**texts, "id": json_dict.get("id")}

    def empty_result(self, content: JsonDict) -> SquadResult | None:
        if content["passage"].strip() and content["question"].strip():
            return None
        passage, question = (self._dataset_reader.split(content[name]) for name in ("passage", "question"))
        attention, window_start = torch.zeros(0, 0), torch.zeros(0, dtype=torch.long)
        return SquadResult(
            SquadQuestion(passage, question, content["id"]), [], attention, attention, window_start
        )

    def to_instance(self, content: JsonDict) -> Instance:
        return self._dataset_reader.text_to_instance(**content)

    def predictions_to_labeled_instances(self, instance: Instance, outputs: JsonDict) -> list[Instance]:
        first, end = outputs["token_start"], outputs["token_end"]
        span = NO_SPAN if first is None else (first, end - 1)
        return [labelled(instance, **span_fields(span, instance["passage"]))]

    def to_json(self, result: TaskResult) -> JsonDict:
        output = result.to_json()
        output["n_best"] = output["n_best"][: self._n_best]
        if output["id"] is None:
            del output["id"]
        start = output.pop("window_start")
        if not self._attention:
            return {name: value for name, value in output.items() if name not in _ATTENTION}
        output["self_attention"] = _across_windows(output["self_attention"], start).tolist()
        output["question_attention"] = output["question_attention"].tolist()
        return output


def _words_after_change(field: Any, original: Words) -> Words:
    words = field_words(cast(TextField, field))
    return original if words == original.words else join_words(words)


def _across_windows(rows: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """*Shape:* `(tokens, window)` and the first token of each window `(tokens,)` to `(tokens, tokens)`."""
    tokens, window = rows.shape
    columns = start.unsqueeze(1) + torch.arange(window, device=start.device)
    return rows.new_zeros(tokens, tokens + window).scatter_(1, columns, rows)[:, :tokens]
