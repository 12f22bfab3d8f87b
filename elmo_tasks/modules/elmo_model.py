"""What the task models share: words and ELMo in, the mix's penalty in the loss, archives that stand alone."""

import inspect
import math
from collections.abc import Sequence
from functools import wraps
from typing import Any, ClassVar, Optional

import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.modules import TextFieldEmbedder
from allennlp.nn import InitializerApplicator, RegularizerApplicator
from allennlp.nn.util import get_text_field_mask

from elmo_tasks.common.errors import FilePath
from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.elmo import Elmo, ElmoRepresentations
from elmo_tasks.elmo.archived import archived_block, archived_state, elmo_from_state
from elmo_tasks.elmo.indexers import ELMO_INDEXER
from elmo_tasks.elmo.inference import private_state_dict

Scores = dict[str, torch.Tensor]
"""What a model computes of a batch, of which an ensemble takes the mean."""
Outputs = dict[str, Any]
"""What `forward` returns."""


class ElmoModel(StrictParams, Model):
    """
    Base class of a task model with an optional `Elmo` beside its token vectors.

    A task's `forward` is `decode(scores(<input fields>), <metadata, gold fields>)`. Between the two is all
    that an ensemble needs: it decodes from the `average` of its members' scores.

    # Parameters

    vocab : made from the training data.
    text_field_embedder : of every token indexer but `elmo`; without `token_embedders` ELMo is the only input.
    elmo : the shared embedder, or `None` for the baseline.
    initializer : of the parameters, as in any AllenNLP model. It runs when the constructor of the task's own
        class has ended.
    regularizer : as in any AllenNLP model; the mix's penalty is added to its penalty.

    # Raises
    `ConfigurationError`: neither token embedders nor ELMo at the input.
    """

    fixed_namespaces: ClassVar[Sequence[str]] = ("labels",)
    """Namespaces of the vocabulary that cannot grow: the model has a score or a vector for each entry."""
    _initializer: Optional[InitializerApplicator] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        constructor = cls.__init__

        @wraps(constructor)
        def construct(self: "ElmoModel", *args: Any, **parameters: Any) -> None:
            constructor(self, *args, **parameters)
            if type(self) is cls and self._initializer is not None:
                self._initializer(self)

        cls.__init__ = construct  # type: ignore[method-assign]

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
        self._initializer = initializer
        self._sizes = {name: vocab.get_vocab_size(name) for name in self.fixed_namespaces}
        self.text_field_embedder = text_field_embedder
        self.elmo = elmo
        self.input_dim = text_field_embedder.get_output_dim() + (elmo.input_dim if elmo else 0)
        """Size of what `embed` returns for a token."""
        if not self.input_dim:
            raise ConfigurationError(
                "text_field_embedder: found no token_embedders, and no ELMo at the input; expected either"
            )
        self.elmo_output_dim = elmo.output_dim if elmo else 0
        """Size of what `at_output` adds to the context encoder's output."""

    def label_names(self) -> list[str]:
        """
        The labels in the order of their ids.

        # Raises
        `ConfigurationError`: the vocabulary has none.
        """
        names = list(self.vocab.get_index_to_token_vocabulary("labels").values())
        if not names:
            raise ConfigurationError("found no labels in the vocabulary: it was not made from labelled data")
        return names

    def forward(self, **fields: Any) -> Outputs:
        """What `decode` returns, of the fields of the instances that it and `scores` read."""
        inputs, gold = self.split_fields(fields)
        return self.decode(self.scores(**inputs), **gold)

    def split_fields(self, fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """
        The fields of a batch that `scores` reads, and those that `decode` reads.

        # Raises
        `ConfigurationError`: a field that neither has a parameter for.
        """
        inputs, gold = (
            {name: fields[name] for name in inspect.signature(method).parameters if name in fields}
            for method in (self.scores, self.decode)
        )
        if unknown := fields.keys() - inputs.keys() - gold.keys():
            raise ConfigurationError(
                f"{type(self).__name__}: found the field {min(unknown)!r} in a batch, expected those of its "
                "reader"
            )
        return inputs, gold

    def scores(self, *inputs: Any, **fields: Any) -> Scores:
        """
        All that the network says of a batch, such as logits, attention to show and masks: no metric, no loss.
        A task's parameters are the fields that it reads, by their names in the instances; none is gold.
        """
        raise NotImplementedError

    def decode(self, scores: Scores, *inputs: Any, **fields: Any) -> Outputs:
        """
        The outputs from scores; with gold fields also the `loss`, and the metrics count the batch. A task's
        other parameters are fields, by their names in the instances; those that are gold are optional.
        """
        raise NotImplementedError

    @staticmethod
    def average(members: list[Scores]) -> Scores:
        """
        What an ensemble decodes from: of the scores of its members for one batch, the mean of each tensor of
        real numbers. A task overrides it where that is not right.

        # Raises
        `ConfigurationError`: other tensors (masks, positions) differ, so that the scores are of different
        things.
        """
        mean = {}
        for name, first in members[0].items():
            values = [scores[name] for scores in members]
            if first.is_floating_point():
                mean[name] = torch.stack(values).mean(dim=0)
            elif all(torch.equal(first, value) for value in values[1:]):
                mean[name] = first
            else:
                raise ConfigurationError(f"the members differ in {name!r}: their scores have no mean")
        return mean

    def extend_embedder_vocab(self, embedding_sources_mapping: Optional[dict[str, str]] = None) -> None:
        """
        AllenNLP's hook: the vocabulary has grown, as by `--extend-vocab`.

        # Raises
        `ConfigurationError`: a label is new, of which the model knows nothing.
        """
        for namespace, size in self._sizes.items():
            entries = list(self.vocab.get_token_to_index_vocabulary(namespace))
            if new := entries[size:]:
                raise ConfigurationError(
                    f"the vocabulary cannot be extended: found {', '.join(map(repr, new))} among the "
                    f"{namespace}, which the model does not know; expected its own, or a new model "
                    "(`allennlp evaluate` without --extend-vocab takes others for unknown)"
                )
        super().extend_embedder_vocab(embedding_sources_mapping)

    def embed(self, tokens: TextFieldTensors) -> tuple[torch.Tensor, ElmoRepresentations]:
        """
        *Shape:* `[x; ELMo]`, `(batch, tokens, input_dim)`, and the representations, for `at_output`.

        # Raises
        `ConfigurationError` if ELMo is placed and the reader does not index what its biLM reads.
        """
        vectors = self.embed_words(tokens)
        if self.elmo is None or self.elmo.bilm is None:
            return vectors, ElmoRepresentations(None, None)
        reads = self.elmo.bilm.reads
        indexed = tokens.get(ELMO_INDEXER)
        if indexed is None or reads not in indexed:
            found = ", ".join(tokens) if indexed is None else f"of another kind: {', '.join(indexed)}"
            raise ConfigurationError(
                f"the model has ELMo, but the token_indexers of dataset_reader or validation_dataset_reader "
                f'are {found}; expected in both also "{ELMO_INDEXER}": {{"type": "elmo_{reads}"}}'
            )
        elmo = self.elmo(indexed[reads])
        return append(vectors, elmo.input), elmo

    def embed_words(self, tokens: TextFieldTensors) -> torch.Tensor:
        """*Shape:* `x`, `(batch, tokens, dim)`, where `dim` is 0 if ELMo is the only input."""
        words = {name: indexed for name, indexed in tokens.items() if name != ELMO_INDEXER}
        if words or self.text_field_embedder.get_output_dim():
            return self.text_field_embedder(words)
        # (batch, tokens)
        mask = get_text_field_mask(tokens)
        return torch.zeros(*mask.shape, 0, device=mask.device)

    def at_output(self, encoded: torch.Tensor, elmo: ElmoRepresentations) -> torch.Tensor:
        """*Shape:* `[h; ELMo]`, `(batch, tokens, encoder dim + elmo_output_dim)`."""
        return append(encoded, elmo.output)

    def get_regularization_penalty(self) -> Optional[torch.Tensor]:
        penalties = [
            super().get_regularization_penalty(),
            self.elmo.penalty() if self.elmo else None,
        ]
        present = [penalty for penalty in penalties if penalty is not None]
        return sum(present[1:], start=present[0]) if present else None

    @classmethod
    def _load(
        cls, config: Params, serialization_dir: FilePath, weights_file: FilePath | None, cuda_device: int
    ) -> Model:
        """
        AllenNLP's hook for loading: the archive holds the biLM, so that the files it came from may be gone.
        """
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
    """`ElmoModel.average`, but of `logits` the logarithm of the mean of the members' probabilities."""
    logits = mean_of_distributions([scores["logits"] for scores in members])
    return ElmoModel.average(members) | {"logits": logits}


def mean_of_distributions(logits: list[torch.Tensor]) -> torch.Tensor:
    """
    The logarithm of the mean probabilities of an ensemble's members, finite however far logits are apart.

    *Shape:* each `(..., classes)` to `(..., classes)`.
    """
    return torch.stack(logits).log_softmax(dim=-1).logsumexp(dim=0) - math.log(len(logits))


def append(vectors: torch.Tensor, more: torch.Tensor | None) -> torch.Tensor:
    """`[vectors; more]` along the features, or `vectors` where there is no more."""
    return vectors if more is None else torch.cat([vectors, more], dim=-1)
