"""The classifier of sentences and pairs: a biLSTM, pooling, and a linear layer over the classes."""

from collections.abc import Callable
from dataclasses import dataclass
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

from elmo_tasks.classification.reader import ClassifierText
from elmo_tasks.common.values import OneOf, Probability, Size
from elmo_tasks.modules.elmo_model import Classifier, Outputs, Scores, stack_texts
from elmo_tasks.modules.layers import BiLstm, pair_features
from elmo_tasks.pipeline.results import LabelResult


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
        fields = super().to_json()
        if self.sentence2_tokens is None:
            del fields["sentence2_tokens"]
        return fields


@Model.register("elmo_classifier")
class ClassificationModel(Classifier):
    """
    Conneau et al. 2017, arXiv:1705.02364, section 3: a biLSTM reads the sentence, and its outputs are pooled
    to one vector. For a pair with the vectors u and v, a linear layer reads u, v, |u - v| and u * v; both
    sentences are encoded in one batch, the first ones first.

    # Parameters

    pairs : whether the instances are pairs.
    hidden_sizes : units of each biLSTM layer, for each direction; an empty list pools the token vectors.
    pooling : `max` or `mean` over the tokens, or `last`: the final output of each direction, for the biLSTM,
        which it needs, and for ELMo.
    dropout : probability, of the variational dropout on the token vectors with ELMo, and of the dropout on
        the input of the linear layer.
    The others : see `Classifier`.
    """

    default_predictor = "elmo_classifier"
    metadata_class = ClassifierText

    def __init__(
        self,
        *,
        pairs: bool,
        hidden_sizes: list[Size],
        pooling: Annotated[str, OneOf(POOLING)],
        dropout: Probability,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if pooling == "last" and not hidden_sizes:
            raise ConfigurationError("pooling 'last' needs a biLSTM: set hidden_sizes, or use max or mean")
        self.pairs = pairs
        self.token_dropout = InputVariationalDropout(dropout)
        self.encoder = (
            BiLstm(input_dim=self.input_dim, hidden_sizes=hidden_sizes, dropout=0.0) if hidden_sizes else None
        )
        self.pool = POOLING[pooling]
        self.dropout = nn.Dropout(dropout)
        sentence_dim = (self.encoder.output_dim if self.encoder else self.input_dim) + self.elmo_output_dim
        self.output = nn.Linear(4 * sentence_dim if pairs else sentence_dim, len(self.labels))
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
        """*Shape:* `logits` `(batch, classes)`. Pairs for a model of single sentences are an error."""
        if (sentence2 is not None) != self.pairs:
            texts = "single sentences" if self.pairs else "pairs of sentences"
            raise ConfigurationError(
                f"the data are {texts}, but the model has pairs: {str(self.pairs).lower()}"
            )
        if sentence2 is None:
            # (batch, sentence_dim)
            features = self._sentences(sentence1)
        else:
            # (batch, 4 sentence_dim)
            features = pair_features(*self._sentences(stack_texts(sentence1, sentence2)).chunk(2))
        return {"logits": self.output(self.dropout(features))}

    def _sentences(self, tokens: TextFieldTensors) -> torch.Tensor:
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

    def results(self, outputs: Outputs) -> list[ClassificationResult]:
        texts: list[ClassifierText] = outputs["metadata"]
        return [
            ClassificationResult(text.sentence1, text.sentence2, *label)
            for text, label in zip(texts, self.best_labels(outputs), strict=True)
        ]
