"""ESIM, the enhanced sequential inference model."""

from dataclasses import dataclass
from typing import Any

import torch
from allennlp.data import TextFieldTensors
from allennlp.models import Model
from allennlp.modules import InputVariationalDropout
from allennlp.nn.util import get_text_field_mask, masked_max, masked_mean
from torch import nn

from elmo_tasks.common.values import Probability, Size
from elmo_tasks.modules.elmo_model import Classifier, Outputs, Scores, stack_texts
from elmo_tasks.modules.layers import BiLstm, align
from elmo_tasks.pipeline.results import LabelResult
from elmo_tasks.snli.reader import SnliPair


@dataclass
class SnliResult(LabelResult):
    """The label of a pair, `None` if a sentence has no words, and a row of its alignment for each word."""

    label: str | None
    probabilities: dict[str, float]
    premise_tokens: list[str]
    hypothesis_tokens: list[str]
    premise_to_hypothesis: list[list[float]]
    hypothesis_to_premise: list[list[float]]


@Model.register("elmo_snli")
class SnliModel(Classifier):
    """
    Chen et al. 2017, arXiv:1609.06038, section 3, as in Peters et al. 2018, supplement: a biLSTM encodes
    premise and hypothesis, attention aligns their words both ways, a second biLSTM composes the inferences at
    each word, and their mean and maximum go through two layers to the label.

    Steps that treat each sentence by itself run on one batch of all sentences, the premises first.

    # Parameters

    hidden_size : units of each biLSTM for each direction, and of the layers between.
    dropout : probability of the variational dropout on the input of each biLSTM, and of the dropout on the
        inputs of the last two layers.
    attention_dropout : probability of the dropout on the output of the attention.
    scaled_attention : whether the attention divides its dot products, see `dot_products`; the paper does not.
    The others : see `Classifier`.
    """

    default_predictor = "elmo_snli"
    metadata_class = SnliPair

    def __init__(
        self,
        *,
        hidden_size: Size,
        dropout: Probability,
        attention_dropout: Probability,
        scaled_attention: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.scaled_attention = scaled_attention
        self.lstm_dropout = InputVariationalDropout(dropout)
        self.encoder = BiLstm(input_dim=self.input_dim, hidden_sizes=[hidden_size], dropout=0.0)
        self.attention_dropout = nn.Dropout(attention_dropout)
        encoded_dim = self.encoder.output_dim + self.elmo_output_dim
        self.projection = nn.Linear(4 * encoded_dim, hidden_size)
        self.composition = BiLstm(input_dim=hidden_size, hidden_sizes=[hidden_size], dropout=0.0)
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(4 * self.composition.output_dim, hidden_size)
        self.output = nn.Linear(hidden_size, len(self.labels))
        self.initialize()

    def forward(
        self,
        premise: TextFieldTensors,
        hypothesis: TextFieldTensors,
        metadata: list[SnliPair],
        label: torch.Tensor | None = None,
    ) -> Outputs:
        """
        Classifies pairs. Returns the scores, `probabilities`, `metadata`, and with a `label` the `loss`.

        *Shape:* `label` `(batch,)`, `probabilities` `(batch, classes)`.
        """
        return self.decode(self.scores(premise, hypothesis), metadata, label)

    def scores(self, premise: TextFieldTensors, hypothesis: TextFieldTensors) -> Scores:
        """
        *Shape:* `logits` `(batch, labels)`, and the attention `premise_to_hypothesis` and
        `hypothesis_to_premise`, both `(batch, tokens, tokens)`, 0 at padding; `tokens` is the length of the
        longest sentence.
        """
        both = stack_texts(premise, hypothesis)
        # (2 batch, tokens)
        mask = get_text_field_mask(both)
        # (2 batch, tokens, input_dim)
        embedded, elmo = self.embed(both)
        # (2 batch, tokens, encoded_dim)
        encoded = self.at_output(self.encoder(self.lstm_dropout(embedded), mask), elmo)
        # (batch, tokens, encoded_dim)
        premises, hypotheses = encoded.chunk(2)
        # (batch, tokens, tokens)
        to_hypothesis, to_premise = align(premises, hypotheses, *mask.chunk(2), scaled=self.scaled_attention)
        # (2 batch, tokens, encoded_dim)
        aligned = torch.cat([to_hypothesis @ hypotheses, to_premise @ premises])
        # (2 batch, tokens, 4 encoded_dim)
        enhanced = torch.cat([encoded, aligned, encoded - aligned, encoded * aligned], dim=2)
        # (2 batch, tokens, hidden_size)
        projected = self.projection(self.attention_dropout(enhanced)).relu()
        # (2 batch, tokens, 2 hidden_size)
        composed = self.composition(self.lstm_dropout(projected), mask)
        # (2 batch, tokens, 1)
        real_words = mask.unsqueeze(2)
        # (2 batch, 4 hidden_size)
        pooled = torch.cat([masked_mean(composed, real_words, 1), masked_max(composed, real_words, 1)], dim=1)
        # (batch, 8 hidden_size)
        pairs = torch.cat(pooled.chunk(2), dim=1)
        # (batch, hidden_size)
        hidden = self.hidden(self.dropout(pairs)).relu()
        # (batch, labels)
        logits = self.output(self.dropout(hidden))
        return {"logits": logits, "premise_to_hypothesis": to_hypothesis, "hypothesis_to_premise": to_premise}

    def results(self, outputs: Outputs) -> list[SnliResult]:
        """Cuts the padding off the alignments."""
        pairs: list[SnliPair] = outputs["metadata"]
        results = []
        for pair, label, to_hypothesis, to_premise in zip(
            pairs,
            self.best_labels(outputs),
            outputs["premise_to_hypothesis"],
            outputs["hypothesis_to_premise"],
            strict=True,
        ):
            rows, columns = len(pair.premise), len(pair.hypothesis)
            alignments = to_hypothesis[:rows, :columns].tolist(), to_premise[:columns, :rows].tolist()
            results.append(SnliResult(*label, pair.premise, pair.hypothesis, *alignments))
        return results
