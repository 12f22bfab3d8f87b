"""Several models of one task as one, which decodes from the average of their scores."""

from contextvars import ContextVar
from typing import Any, cast

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.predictors import Predictor
from torch import nn

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.elmo import FrozenBiLm, LstmState, TrainedBiLm
from elmo_tasks.modules.elmo_model import ElmoModel


class EnsembleModel(StrictParams, Model):
    """
    Decodes as its first member does, but from the `average` of all members' `scores`. Ensembles have the best
    results in Peters et al. 2018, section 4.

    Members that share a biLM run it once a batch, unless it carries its state from batch to batch; each mixes
    its layers on its own. An ensemble is not trained: its parameters take no gradients. Other than two or
    more models of one class are a `ConfigurationError`.
    """

    default_predictor = "elmo_ensemble"

    def __init__(self, *, vocab: Vocabulary, members: list[Model]) -> None:
        super().__init__(vocab)
        if len(members) < 2 or not isinstance(members[0], ElmoModel) or len(set(map(type, members))) > 1:
            kinds = ", ".join(type(member).__name__ for member in members) or "none"
            raise ConfigurationError(f"an ensemble needs two or more models of one task, not {kinds}")
        self.members = nn.ModuleList(members).requires_grad_(False)
        self._encoder = _SharedEncoder()
        for member in members:
            if member.elmo is not None and member.elmo.activations is None and not member.elmo.stateful:
                member.elmo.encoder = self._encoder

    @property
    def first(self) -> ElmoModel:
        """The member that decodes, computes the metrics and names the predictor."""
        return cast(ElmoModel, self.members[0])

    def forward(self, **fields: Any) -> dict[str, Any]:
        """Returns the outputs of the task's model for a batch of the task's instances."""
        inputs, gold = self.first.split_fields(fields)
        with self._encoder:
            scores = [member.scores(**inputs) for member in cast(list[ElmoModel], self.members)]
        return self.first.decode(self.first.average(scores), **gold)

    def make_output_human_readable(self, output_dict: dict[str, Any]) -> dict[str, Any]:
        return self.first.make_output_human_readable(output_dict)

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        return self.first.get_metrics(reset)


@Predictor.register("elmo_ensemble", constructor="of_task")
class EnsemblePredictor(Predictor):
    """The predictor of the members' task, under the name that an ensemble's archive looks for."""

    @classmethod
    def of_task(cls, model: EnsembleModel, dataset_reader: DatasetReader, **arguments: Any) -> Predictor:
        return Predictor.by_name(model.first.default_predictor)(model, dataset_reader, **arguments)


_Run = tuple[FrozenBiLm | TrainedBiLm, tuple[torch.Tensor, ...], torch.Tensor]
_runs: ContextVar[list[_Run] | None] = ContextVar("runs", default=None)
"""The runs for the batch that this thread computes: each biLM, the ids and state that it read, its layers."""


class _SharedEncoder:
    """
    A `LayerEncoder` for all members. In a `with` block, a biLM runs once for the same ids, so that members
    that share it also share its layers. Each thread has its own layers, until the block ends.
    """

    def __enter__(self) -> None:
        _runs.set([])

    def __exit__(self, *_: object) -> None:
        _runs.set(None)

    def encode(self, bilm: FrozenBiLm | TrainedBiLm, ids: torch.Tensor, start: LstmState) -> torch.Tensor:
        inputs = (ids, *start)
        runs = _runs.get()
        for earlier_bilm, earlier_inputs, layers in runs or ():
            if earlier_bilm is bilm and all(map(torch.equal, inputs, earlier_inputs)):
                return layers
        layers = bilm.encode(ids, start)
        if runs is not None:
            runs.append((bilm, inputs, layers))
        return layers
