"""The biattentive classification network (BCN), as in the ELMo paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Optional

import torch
from allennlp.data import TextFieldTensors
from allennlp.models import Model
from allennlp.modules import InputVariationalDropout
from allennlp.nn.util import get_text_field_mask, masked_max, masked_mean
from allennlp.training.metrics import BooleanAccuracy
from torch import nn
from torch.nn import functional as F

from elmo_tasks.common.values import OneOf, Probability, Size
from elmo_tasks.modules.elmo_model import Classifier, Outputs, Scores
from elmo_tasks.modules.layers import BiLstm, attention, dot_products
from elmo_tasks.pipeline.results import LabelResult
from elmo_tasks.sst.reader import SstSentence

OUTPUT_ELMO = ("encoder", "integrator")


@dataclass
class SstResult(LabelResult):
    """The label of a sentence, `None` without words, and the attention to each word."""

    tokens: list[str]
    label: str | None
    probabilities: dict[str, float]
    attention: list[float]


@Model.register("elmo_sst")
class SstModel(Classifier):
    """
    McCann et al. 2017, arXiv:1708.00107, section 5, with the changes of Peters et al. 2018 (supplement). A
    ReLU layer and a biLSTM, the encoder, read the sentence. Biattention gives each token a context vector. A
    second biLSTM, the integrator, reads the encoding, its difference to the context, and their product. The
    maximum, mean, minimum and self-attentive sum over the tokens go through ReLU layers to the classes.

    With the five classes of the treebank, its metrics have a `binary_accuracy`, too: of the sentences that
    are not neutral, by the sums of the probabilities of either side.

    # Parameters

    projection_size : units of the ReLU layer before the encoder; `None`: no such layer.
    hidden_size : units of the encoder and of the integrator, for each direction.
    classifier_sizes : units of each layer between the pooled tokens and the classes.
    dropout : probability of the variational dropout on the token vectors and around the encoder.
    classifier_dropout : probability of the dropout on the pooled tokens and after each layer.
    maxout : number of linear pieces of a unit of `classifier_sizes`, as in McCann et al., see `Maxout`;
        `None`: ReLU.
    output_elmo : where the output ELMo is added: to the `encoder`, so that the biattention compares it too
        and needs `scaled_attention`, or to the `integrator`, after the biattention.
    scaled_attention : whether the biattention divides its dot products, see `dot_products`.
    The others : see `Classifier`.
    """

    default_predictor = "elmo_sst"
    metadata_class = SstSentence

    def __init__(
        self,
        *,
        projection_size: Optional[Size],
        hidden_size: Size,
        classifier_sizes: list[Size],
        dropout: Probability,
        classifier_dropout: Probability,
        maxout: Optional[Size] = None,
        output_elmo: Annotated[str, OneOf(OUTPUT_ELMO)] = "encoder",
        scaled_attention: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.output_elmo, self.scaled_attention = output_elmo, scaled_attention
        self.projection: nn.Module = nn.Identity()
        if projection_size is not None:
            linear = nn.Linear(self.input_dim, projection_size)
            self.projection = nn.Sequential(InputVariationalDropout(dropout), linear, nn.ReLU())
        encoder_input = projection_size or self.input_dim
        self.encoder = BiLstm(input_dim=encoder_input, hidden_sizes=[hidden_size], dropout=dropout)
        encoded_dim = self.encoder.output_dim + self._elmo_dim_at("encoder")
        self.integrator = BiLstm(input_dim=3 * encoded_dim, hidden_sizes=[hidden_size], dropout=0.0)
        integrated_dim = self.integrator.output_dim + self._elmo_dim_at("integrator")
        self.pooling = nn.Linear(integrated_dim, 1)
        sizes = [4 * integrated_dim, *classifier_sizes]
        self.classifier = _classifier_layers(sizes, len(self.labels), maxout, classifier_dropout)
        self.binary_metric = BooleanAccuracy() if len(self.labels) == 5 else None
        self.initialize()

    def forward(
        self, tokens: TextFieldTensors, metadata: list[SstSentence], label: torch.Tensor | None = None
    ) -> Outputs:
        """Classifies sentences. *Shape:* gold `label` `(batch,)`. For the outputs see `Classifier.decode`."""
        return self.decode(self.scores(tokens), metadata, label)

    def scores(self, tokens: TextFieldTensors) -> Scores:
        """*Shape:* `logits` `(batch, classes)`, `attention` of the pooling and `mask` `(batch, tokens)`."""
        mask = get_text_field_mask(tokens)
        # (batch, tokens, input_dim)
        embedded, elmo = self.embed(tokens)
        # (batch, tokens, encoded_dim)
        encoded = self.encoder(self.projection(embedded), mask)
        if self.output_elmo == "encoder":
            encoded = self.at_output(encoded, elmo)
        # (batch, tokens, tokens)
        products = dot_products(encoded, encoded, scaled=self.scaled_attention)
        biattention = attention(products, mask.unsqueeze(1))
        # (batch, tokens, encoded_dim)
        context = biattention @ encoded
        # (batch, tokens, integrated_dim)
        integrated = self.integrator(torch.cat([encoded, encoded - context, encoded * context], dim=2), mask)
        if self.output_elmo == "integrator":
            integrated = self.at_output(integrated, elmo)
        # (batch, tokens)
        weights = attention(self.pooling(integrated).squeeze(2), mask)
        # (batch, 4 * integrated_dim)
        pooled = torch.cat(
            [
                masked_max(integrated, mask.unsqueeze(2), dim=1),
                masked_mean(integrated, mask.unsqueeze(2), dim=1),
                -masked_max(-integrated, mask.unsqueeze(2), dim=1),
                (weights.unsqueeze(1) @ integrated).squeeze(1),
            ],
            dim=1,
        )
        return {"logits": self.classifier(pooled), "attention": weights, "mask": mask}

    def decode(
        self, scores: Scores, metadata: Sequence[object], label: torch.Tensor | None = None
    ) -> Outputs:
        outputs = super().decode(scores, metadata, label)
        if label is not None and self.binary_metric is not None:
            negative, _, positive = outputs["probabilities"].split([2, 1, 2], dim=1)
            is_positive = positive.sum(dim=1) > negative.sum(dim=1)
            self.binary_metric(is_positive, label > 2, label != 2)
        return outputs

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        metrics = super().get_metrics(reset)
        if reset and self.binary_metric is not None:
            metrics["binary_accuracy"] = self.binary_metric.get_metric(reset)
        return metrics

    def results(self, outputs: Outputs) -> list[SstResult]:
        sentences: list[SstSentence] = outputs["metadata"]
        return [
            SstResult(sentence.words, *label, attention[: len(sentence.words)])
            for sentence, label, attention in zip(
                sentences, self.best_labels(outputs), outputs["attention"].tolist(), strict=True
            )
        ]

    def _elmo_dim_at(self, layer: str) -> int:
        return self.elmo_output_dim if layer == self.output_elmo else 0


class Maxout(nn.Module):
    """
    A layer whose units are each the largest of `pieces` linear units (Goodfellow et al. 2013,
    arXiv:1302.4389), normalised over the batch (Ioffe and Szegedy 2015, arXiv:1502.03167). A batch of one has
    no variance, and is normalised in training as in evaluation.
    """

    def __init__(self, *, input_dim: int, output_dim: int, pieces: int) -> None:
        super().__init__()
        self.linear = nn.Linear(input_dim, output_dim * pieces)
        self.largest = _Largest(pieces)
        self.norm = nn.BatchNorm1d(output_dim)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(batch, input_dim)` to `(batch, output_dim)`."""
        # (batch, output_dim)
        largest = self.largest(self.linear(inputs))
        if len(inputs) > 1:
            return self.norm(largest)
        norm = self.norm
        return F.batch_norm(
            largest, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
        )


class _Largest(nn.Module):
    """The largest piece of each unit: a module, for AllenNLP's check of biases before normalisations."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.pieces = pieces

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(batch, units * pieces)` to `(batch, units)`."""
        return inputs.unflatten(1, (-1, self.pieces)).amax(dim=2)


def _classifier_layers(sizes: list[int], classes: int, maxout: int | None, dropout: float) -> nn.Sequential:
    """*Shape:* `(batch, sizes[0])` to `(batch, classes)`."""
    layers: list[nn.Module] = [nn.Dropout(dropout)]
    for before, size in pairwise(sizes):
        if maxout is None:
            layers += [nn.Linear(before, size), nn.ReLU()]
        else:
            layers += [Maxout(input_dim=before, output_dim=size, pieces=maxout)]
        layers += [nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], classes))
