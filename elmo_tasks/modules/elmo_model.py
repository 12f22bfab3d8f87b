"""
The base classes of the task models. They combine word vectors with ELMo, add the penalty of ELMo's mixes to
the loss, and open archives without the files that their biLM came from.
"""

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, Optional, cast

import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.modules import TextFieldEmbedder
from allennlp.nn import InitializerApplicator, RegularizerApplicator
from allennlp.nn.util import get_text_field_mask
from allennlp.predictors import Predictor
from torch import nn
from torch.nn import functional as F

from elmo_tasks.common.errors import FilePath
from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.elmo import Elmo, ElmoRepresentations, FrozenBiLm, LstmState, TrainedBiLm
from elmo_tasks.elmo.inference import private_state_dict
from elmo_tasks.elmo.token_embedder import ELMO_INDEXER, archived_block, archived_state, elmo_from_state
from elmo_tasks.modules.metrics import ClassificationMetric, CountingMetric
from elmo_tasks.pipeline.results import Label, TaskResult

Scores = dict[str, torch.Tensor]
"""The result of a model's network for a batch; an ensemble decodes from the mean of its members' scores."""
Outputs = dict[str, Any]
"""What `forward` returns: scores and other tensors, and lists with an entry for each instance."""


class TaskModel(StrictParams, Model):
    """
    Base class of the models of tasks, and of ensembles of them.

    A task's `forward` reads the fields of its dataset reader, computes the `scores` of the network, and
    decodes them. It needs nothing else of its model, so that an ensemble runs the same `forward` with the
    `average` of its members' scores.
    """

    scores: Callable[..., Scores]
    """Computes the network from the input fields: logits, attention to show, masks."""
    decode: Callable[..., Outputs]
    """
    Returns the outputs for the scores and the metadata. With gold fields, they contain the `loss`, and the
    metrics count the batch.
    """

    @property
    @abstractmethod
    def first(self) -> "ElmoModel":
        """The model that decodes, computes the metrics and names the predictor."""

    @abstractmethod
    def results(self, outputs: Outputs) -> Sequence[TaskResult]:
        """Returns the result of each instance, for the outputs of `decode`."""

    def make_output_human_readable(self, output_dict: Outputs) -> Outputs:
        """Returns the `results` as JSON; AllenNLP wants a list for each of their keys."""
        rows = [result.to_json() for result in self.results(output_dict)]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def __call__(self, *, dataset: object = None, **fields: object) -> Outputs:
        """
        Calls `forward`. The fields of another dataset reader are a `ConfigurationError`. No model reads
        `dataset`, the name of the data, which AllenNLP's reader `interleaving` adds.
        """
        try:
            return super().__call__(**fields)
        except (TypeError, AttributeError) as error:
            if self.first.has_fields(fields):
                raise
            raise ConfigurationError(self.first.needed_reader) from error


class ElmoModel(TaskModel):
    """
    Base class of a task model with word vectors and an optional `Elmo`.

    The constructor of a task's model ends with `self.initialize()`.

    # Parameters

    text_field_embedder : for every token indexer but `elmo`; without `token_embedders`, ELMo is the only
        input.
    elmo : the shared embedder, or `None` for the baseline.
    initializer : as in any AllenNLP model.
    regularizer : as in any AllenNLP model; the mix's penalty is added to its penalty.

    # Raises
    `ConfigurationError`: neither token embedders nor ELMo at the input.
    """

    metadata_class: ClassVar[type] = object
    fixed_namespaces: ClassVar[Sequence[str]] = ("labels",)
    """Namespaces of the vocabulary that cannot grow: the model has a score or a vector for each entry."""
    metric: CountingMetric[Any]
    main_metrics: ClassVar[Sequence[str]] = ()
    """The metrics within an epoch; by default those that the metric gives then."""
    without_gold: ClassVar[str] = ""
    """Says what is missing in data that have nothing to score; a model then sets `lacks_gold`."""

    def __init__(
        self,
        *,
        vocab: Vocabulary,
        text_field_embedder: TextFieldEmbedder,
        elmo: Optional[Elmo] = None,
        initializer: Optional[InitializerApplicator] = None,
        regularizer: Optional[RegularizerApplicator] = None,
    ) -> None:
        super().__init__(vocab, regularizer)
        self.lacks_gold = False
        self._initializer = initializer
        self._fixed_sizes = {name: vocab.get_vocab_size(name) for name in self.fixed_namespaces}
        self.text_field_embedder = text_field_embedder
        self.elmo = elmo
        self.input_dim = text_field_embedder.get_output_dim() + (elmo.input_dim if elmo else 0)
        """Size of a vector that `embed` returns."""
        self.elmo_output_dim = elmo.output_dim if elmo else 0
        """Size that `at_output` adds to a vector of the context encoder."""
        if not self.input_dim:
            raise ConfigurationError(
                "text_field_embedder needs token_embedders, or the model ELMo at the input"
            )

    def initialize(self) -> None:
        """Runs the `initializer` over all parameters, once all layers are made."""
        if self._initializer is not None:
            self._initializer(self)

    def label_names(self) -> list[str]:
        """Returns the labels in the order of their ids; `ConfigurationError` if there are none."""
        names = list(self.vocab.get_index_to_token_vocabulary("labels").values())
        if not names:
            raise ConfigurationError(f"the vocabulary has no labels; {self.needed_reader}, and labelled data")
        return names

    @property
    def needed_reader(self) -> str:
        """Says which dataset reader makes the instances of the model: it has the name of the predictor."""
        return f"{type(self).__name__} needs the dataset reader {self.default_predictor!r}"

    @property
    def first(self) -> "ElmoModel":
        return self

    def has_fields(self, fields: dict[str, object]) -> bool:
        """Tells whether a batch has the fields that `forward` reads, with metadata of the task's reader."""
        try:
            inspect.signature(self.forward).bind(**fields)
        except TypeError:
            return False
        metadata = fields.get("metadata")
        return not isinstance(metadata, list) or isinstance(metadata[0], self.metadata_class)

    @staticmethod
    def average(members: list[Scores]) -> Scores:
        """
        Returns the scores that an ensemble decodes: for each tensor of real numbers the mean over its
        members. A task overrides it where the mean is not right. Members that differ in another tensor (a
        mask, a position) are a `ConfigurationError`.
        """
        mean = {}
        for name, first in members[0].items():
            values = torch.stack([scores[name] for scores in members])
            if first.is_floating_point():
                mean[name] = values.mean(dim=0)
            elif (values == first).all():
                mean[name] = first
            else:
                raise ConfigurationError(f"the members differ in {name!r}: their scores have no mean")
        return mean

    def embed(self, tokens: TextFieldTensors) -> tuple[torch.Tensor, ElmoRepresentations]:
        """
        Returns the vectors that the context encoder reads, and ELMo's representations, for `at_output`. A
        reader that does not index the tokens for ELMo's biLM is a `ConfigurationError`.

        *Shape:* `[x; ELMo]`, `(batch, tokens, input_dim)`.
        """
        vectors = self.embed_words(tokens)
        if self.elmo is None or self.elmo.bilm is None:
            return vectors, ElmoRepresentations(None, None)
        reads = self.elmo.bilm.reads
        indexed = tokens.get(ELMO_INDEXER)
        if indexed is None or reads not in indexed:
            indexers = ", ".join(tokens) if indexed is None else f"of another kind: {', '.join(indexed)}"
            raise ConfigurationError(
                f"the model has ELMo, but the token_indexers of dataset_reader or validation_dataset_reader "
                f'are {indexers}; add "{ELMO_INDEXER}": {{"type": "elmo_{reads}"}} to both'
            )
        elmo = self.elmo(indexed[reads])
        return append(vectors, elmo.input), elmo

    def embed_words(self, tokens: TextFieldTensors) -> torch.Tensor:
        """Returns word vectors `x`. *Shape:* `(batch, tokens, dim)`; `dim` is 0 if ELMo is the only input."""
        words = {name: indexed for name, indexed in tokens.items() if name != ELMO_INDEXER}
        if words or self.text_field_embedder.get_output_dim():
            return self.text_field_embedder(words)
        # (batch, tokens)
        mask = get_text_field_mask(tokens)
        return torch.zeros(*mask.shape, 0, device=mask.device)

    def at_output(self, encoded: torch.Tensor, elmo: ElmoRepresentations) -> torch.Tensor:
        """Returns `[h; ELMo]`. *Shape:* `(batch, tokens, encoder dim + elmo_output_dim)`."""
        return append(encoded, elmo.output)

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        """Returns the main metrics; at the end of an epoch all, or an error if there was nothing to score."""
        if reset and self.lacks_gold and not self.training:
            raise ConfigurationError(
                f"{self.without_gold}, so there is nothing to score; use `allennlp predict "
                "--use-dataset-reader`"
            )
        metrics = self.metric.get_metric(reset)
        if reset or not self.main_metrics:
            return metrics
        return {name: metrics[name] for name in self.main_metrics}

    def get_regularization_penalty(self) -> torch.Tensor | None:
        penalties = [super().get_regularization_penalty(), self.elmo.penalty() if self.elmo else None]
        present = [penalty for penalty in penalties if penalty is not None]
        return sum(present[1:], start=present[0]) if present else None

    def extend_embedder_vocab(self, embedding_sources_mapping: dict[str, str] | None = None) -> None:
        """AllenNLP's hook for a larger vocabulary; `fixed_namespaces` cannot grow: `ConfigurationError`."""
        for namespace, size in self._fixed_sizes.items():
            entries = list(self.vocab.get_token_to_index_vocabulary(namespace))
            if new := entries[size:]:
                raise ConfigurationError(
                    f"the vocabulary cannot be extended: the model does not know {', '.join(map(repr, new))} "
                    f"among its {namespace}; train a new model, or leave out --extend-vocab, so that they "
                    "count as unknown"
                )
        super().extend_embedder_vocab(embedding_sources_mapping)

    @classmethod
    def _load(
        cls, config: Params, serialization_dir: FilePath, weights_file: FilePath | None, cuda_device: int
    ) -> Model:
        """Loads an archived model; AllenNLP calls it. The biLM's weights come from the archive as well."""
        if (block := config["model"].get("elmo")) is not None:
            elmo_from_state(
                block,
                archived_state(serialization_dir, weights_file),
                "elmo.",
                archived=archived_block(serialization_dir, "model.elmo"),
            )
        with private_state_dict():
            return super()._load(config, serialization_dir, weights_file, cuda_device)


def average_with_logits(members: list[Scores]) -> Scores:
    """Averages probabilities in place of `logits`; finite, however far these are apart."""
    mean = ElmoModel.average(members)
    logits = torch.stack([scores["logits"] for scores in members])
    return mean | {"logits": logits.log_softmax(dim=-1).logsumexp(dim=0) - math.log(len(members))}


class Classifier(ElmoModel):
    """
    Base class of a task model whose `scores` have `logits` `(batch, classes)`. The classes are the `labels`
    of the vocabulary. Instances have the fields `metadata` and, if labelled, `label` (a `ClosedLabelField`).
    For the parameters see `ElmoModel`. A vocabulary without labels is a `ConfigurationError`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.labels = self.label_names()
        self.metric = ClassificationMetric(self.labels)

    def decode(
        self, scores: Scores, metadata: Sequence[object], label: torch.Tensor | None = None
    ) -> Outputs:
        """
        Returns the scores, `probabilities` `(batch, classes)`, `metadata`, and with a gold `label` the
        `loss`: the mean over the instances of the negative log-likelihood.
        """
        logits = scores["logits"]
        outputs = {**scores, "probabilities": logits.softmax(dim=1), "metadata": metadata}
        if label is not None:
            outputs["loss"] = F.cross_entropy(logits, label)
            self.metric(logits.argmax(dim=1), label)
        return outputs

    average = staticmethod(average_with_logits)

    def best_labels(self, outputs: Outputs) -> list[Label]:
        rows: list[list[float]] = outputs["probabilities"].tolist()
        return [
            Label(self.labels[row.index(max(row))], dict(zip(self.labels, row, strict=True))) for row in rows
        ]


def append(vectors: torch.Tensor, more: torch.Tensor | None) -> torch.Tensor:
    return vectors if more is None else torch.cat([vectors, more], dim=-1)


def stack_texts(first: TextFieldTensors, second: TextFieldTensors) -> TextFieldTensors:
    """Returns the rows of both texts as one padded batch. *Shape:* `(2 batch, tokens, ...)` each."""
    return {
        name: {key: _stack(tensor, second[name][key]) for key, tensor in indexed.items()}
        for name, indexed in first.items()
    }


def _stack(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    if torch.compiler.is_exporting():
        return torch.cat([first, second])  # whose lengths are equal
    shape = [max(sizes) for sizes in zip(first.shape[1:], second.shape[1:], strict=True)]
    stacked = first.new_zeros(len(first) + len(second), *shape)
    for rows, tensor in ((stacked[: len(first)], first), (stacked[len(first) :], second)):
        rows[tuple(map(slice, (len(rows), *tensor.shape[1:])))] = tensor
    return stacked


def choose_texts(tokens: TextFieldTensors, rows: torch.Tensor) -> TextFieldTensors:
    """Returns some rows of a batch. *Shape:* each tensor `(batch, ...)`, and `(rows,)`, to `(rows, ...)`."""
    return {name: {key: tensor[rows] for key, tensor in indexed.items()} for name, indexed in tokens.items()}


class EnsembleModel(TaskModel):
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
        return cast(ElmoModel, self.members[0])

    def forward(self, **fields: object) -> Outputs:
        """Runs the `forward` of the members' class, which calls `scores` and `decode` of the ensemble."""
        return type(self.first).forward(cast(ElmoModel, self), **fields)

    def scores(self, *inputs: object, **named: object) -> Scores:
        with self._encoder:
            scores = [member.scores(*inputs, **named) for member in cast(list[ElmoModel], self.members)]
        return self.first.average(scores)

    def decode(
        self, scores: Scores, metadata: list[object], *gold: torch.Tensor | None, **named: object
    ) -> Outputs:
        return self.first.decode(scores, metadata, *gold, **named)

    def results(self, outputs: Outputs) -> Sequence[TaskResult]:
        return self.first.results(outputs)

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        return self.first.get_metrics(reset)


@Predictor.register("elmo_ensemble", constructor="of_task")
class EnsemblePredictor(Predictor):
    """The predictor of the members' task, under the name that an ensemble's archive looks for."""

    @classmethod
    def of_task(cls, model: EnsembleModel, dataset_reader: DatasetReader, **arguments: object) -> Predictor:
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
