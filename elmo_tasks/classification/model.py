"""The classifier of sentences and pairs: a biLSTM, pooling, and a linear layer over the classes."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import torch
from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors
from allennlp.models import Model
from allennlp.modules import InputVariationalDropout
from allennlp.nn.util import get_final_encoder_states, get_text_field_mask, masked_max, masked_mean
from torch import nn
from torch.nn import functional as F

from elmo_tasks.classification.reader import ClassifierText
from elmo_tasks.common.values import OneOf, Probability, Size
from elmo_tasks.modules.elmo_model import (
    Classifier,
    ElmoModel,
    Outputs,
    Scores,
    average_with_logits,
    stack_texts,
)
from elmo_tasks.modules.layers import BiLstm, pair_features
from elmo_tasks.modules.metrics import LabelsMetric
from elmo_tasks.pipeline.results import LabelResult, Labels, TaskResult


def max_of_tokens(vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return masked_max(vectors, mask.unsqueeze(2), dim=1)


def mean_of_tokens(vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return masked_mean(vectors, mask.unsqueeze(2), dim=1)


# Functions with names, which can be pickled with the model
POOLING: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "max": max_of_tokens,
    "mean": mean_of_tokens,
    "last": partial(get_final_encoder_states, bidirectional=True),
}
"""*Shape:* `(batch, tokens, dim)`, `(batch, tokens)` to `(batch, dim)`."""


@dataclass
class ClassificationResult(LabelResult):
    """The label of a sentence or pair, `None` if a sentence has no words."""

    sentence1_tokens: list[str]
    sentence2_tokens: list[str] | None
    """`None` for a single sentence."""
    label: str | None
    probabilities: dict[str, float]

    def to_json(self) -> JsonDict:
        return _without_second(super().to_json())


@dataclass
class LabelsResult(TaskResult):
    """The labels of a sentence or pair, any number of them; none if a sentence has no words."""

    sentence1_tokens: list[str]
    sentence2_tokens: list[str] | None
    """`None` for a single sentence."""
    labels: list[str]
    probabilities: dict[str, float]

    @property
    def value(self) -> Labels:
        return Labels(self.labels, self.probabilities)

    def above(self, min_probability: float) -> "LabelsResult":
        """Returns the result without the labels of a lower probability."""
        labels = [label for label in self.labels if self.probabilities[label] >= min_probability]
        return replace(self, labels=labels)

    def to_json(self) -> JsonDict:
        return _without_second(super().to_json())


def _without_second(fields: JsonDict) -> JsonDict:
    return {name: value for name, value in fields.items() if (name, value) != ("sentence2_tokens", None)}


class TextClassifier(Classifier):
    """
    Base class of a classifier of sentences, or of pairs.

    # Parameters

    pairs : whether the instances are pairs.
    several_labels : whether a text has any number of the classes. Each has a probability of its own, and a
        text has those that reach the class's threshold, by default .5.
    The others : see `Classifier`.
    """

    default_predictor = "elmo_classifier"
    metadata_class = ClassifierText
    thresholds: torch.Tensor

    def __init__(self, *, pairs: bool, several_labels: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pairs, self.several_labels = pairs, several_labels
        if several_labels:
            self.metric = LabelsMetric(self.labels)
            # (classes,)
            self.register_buffer("thresholds", torch.full((len(self.labels),), 0.5))

    def decode(
        self, scores: Scores, metadata: Sequence[object], label: torch.Tensor | None = None
    ) -> Outputs:
        """
        See `Classifier.decode`. With several labels, the loss is the mean of the binary cross-entropy of all
        classes, and `label` is `(batch, classes)`, of 0 and 1.
        """
        if label is not None:
            self.check_labels(label)
        if not self.several_labels:
            return super().decode(scores, metadata, label)
        logits = scores["logits"]
        # (batch, classes)
        probabilities = logits.sigmoid()
        outputs: Outputs = {**scores, "probabilities": probabilities, "metadata": metadata}
        if label is not None:
            outputs["loss"] = F.binary_cross_entropy_with_logits(logits, label.float())
            self.metric(probabilities >= self.thresholds, label)
        return outputs

    def check_labels(self, label: torch.Tensor) -> None:
        """Raises a `ConfigurationError` for one label a text where the model gives several, or vice versa."""
        if label.dim() != 1 + self.several_labels:
            texts = "several labels" if label.dim() > 1 else "one label"
            problem = f"the texts have {texts}, but the model has several_labels"
            raise ConfigurationError(f"{problem}: {str(self.several_labels).lower()}")

    def average(self, members: list[Scores]) -> Scores:  # type: ignore[override]
        """Averages probabilities in place of `logits`."""
        if not self.several_labels:
            return average_with_logits(members)
        mean = torch.stack([scores["logits"].sigmoid() for scores in members]).mean(dim=0)
        return ElmoModel.average(members) | {"logits": mean.logit(eps=1e-6)}

    def vectors(self, sentence1: TextFieldTensors, sentence2: TextFieldTensors | None = None) -> torch.Tensor:
        """
        Returns the vectors of the texts; of pairs, u, v, |u - v| and u * v. Both texts of pairs are encoded
        in one batch. Pairs for a model of single sentences are a `ConfigurationError`.

        *Shape:* `(batch, sentence_dim)` or `(batch, 4 sentence_dim)`.
        """
        if (sentence2 is not None) != self.pairs:
            texts = "single sentences" if self.pairs else "pairs of sentences"
            raise ConfigurationError(
                f"the data are {texts}, but the model has pairs: {str(self.pairs).lower()}"
            )
        if sentence2 is None:
            return self.sentence_vectors(sentence1)
        # (batch, 4 sentence_dim)
        return pair_features(*self.sentence_vectors(stack_texts(sentence1, sentence2)).chunk(2))

    @abstractmethod
    def sentence_vectors(self, tokens: TextFieldTensors) -> torch.Tensor:
        """*Shape:* `(batch, sentence_dim)`."""

    def results(self, outputs: Outputs) -> list[ClassificationResult] | list[LabelsResult]:
        texts: list[ClassifierText] = outputs["metadata"]
        if self.several_labels:
            rows, thresholds = outputs["probabilities"].tolist(), self.thresholds.tolist()
            return [
                LabelsResult(
                    text.sentence1,
                    text.sentence2,
                    [self.labels[i] for i, bound in enumerate(thresholds) if row[i] >= bound],
                    dict(zip(self.labels, row, strict=True)),
                )
                for text, row in zip(texts, rows, strict=True)
            ]
        return [
            ClassificationResult(text.sentence1, text.sentence2, *label)
            for text, label in zip(texts, self.best_labels(outputs), strict=True)
        ]


@Model.register("elmo_classifier")
class ClassificationModel(TextClassifier):
    """
    Conneau et al. 2017, arXiv:1705.02364, section 3: a biLSTM reads the sentence, and its outputs are pooled
    to one vector. For a pair with the vectors u and v, a linear layer reads u, v, |u - v| and u * v; both
    sentences are encoded in one batch, the first ones first.

    # Parameters

    hidden_sizes : units of each biLSTM layer, for each direction; an empty list pools the token vectors.
    pooling : `max` or `mean` over the tokens, or `last`: the final output of each direction, for the biLSTM,
        which it needs, and for ELMo.
    dropout : probability, of the variational dropout on the token vectors with ELMo, and of the dropout on
        the input of the linear layer.
    The others : see `TextClassifier`.
    """

    def __init__(
        self,
        *,
        hidden_sizes: list[Size],
        pooling: Annotated[str, OneOf(POOLING)],
        dropout: Probability,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if pooling == "last" and not hidden_sizes:
            raise ConfigurationError("pooling 'last' needs a biLSTM: set hidden_sizes, or use max or mean")
        self.token_dropout = InputVariationalDropout(dropout)
        self.encoder = (
            BiLstm(input_dim=self.input_dim, hidden_sizes=hidden_sizes, dropout=0.0) if hidden_sizes else None
        )
        self.pool = POOLING[pooling]
        self.dropout = nn.Dropout(dropout)
        sentence_dim = (self.encoder.output_dim if self.encoder else self.input_dim) + self.elmo_output_dim
        self.output = nn.Linear(4 * sentence_dim if self.pairs else sentence_dim, len(self.labels))
        self.initialize()

    def forward(
        self,
        sentence1: TextFieldTensors,
        metadata: list[ClassifierText],
        sentence2: TextFieldTensors | None = None,
        label: torch.Tensor | None = None,
    ) -> Outputs:
        """Classifies texts. *Shape:* `label` `(batch,)`. For the outputs see `Classifier.decode`."""
        return self.decode(self.scores(sentence1, sentence2), metadata, label)

    def scores(self, sentence1: TextFieldTensors, sentence2: TextFieldTensors | None = None) -> Scores:
        """*Shape:* `logits` `(batch, classes)`."""
        return {"logits": self.output(self.dropout(self.vectors(sentence1, sentence2)))}

    def sentence_vectors(self, tokens: TextFieldTensors) -> torch.Tensor:
        """*Shape:* `(batch, sentence_dim)`."""
        mask = get_text_field_mask(tokens)
        # (batch, tokens, input_dim)
        embedded, elmo = self.embed(tokens)
        embedded = self.token_dropout(embedded)
        # (batch, tokens, encoder dim)
        encoded = embedded if self.encoder is None else self.encoder(embedded, mask)
        # (batch, encoder dim), (batch, elmo_output_dim): pooled apart, since each has two directions
        pooled = [self.pool(part, mask) for part in (encoded, elmo.output) if part is not None]
        # (batch, sentence_dim)
        return torch.cat(pooled, dim=1)
