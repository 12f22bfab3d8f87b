"""A biLSTM and a linear layer over the parts of speech of each token."""

from dataclasses import dataclass
from typing import Any, Optional

import torch
from allennlp.data import TextFieldTensors
from allennlp.models import Model
from allennlp.nn.util import get_text_field_mask, sequence_cross_entropy_with_logits
from allennlp.training.metrics import CategoricalAccuracy
from torch import nn

from elmo_tasks.common.values import Probability, Sizes
from elmo_tasks.modules.elmo_model import ElmoModel, Outputs, Scores
from elmo_tasks.modules.layers import BiLstm
from elmo_tasks.pipeline.results import TaskResult

from .reader import UNSEEN


@dataclass
class PosResult(TaskResult):
    """The words of a sentence, and their tags: the JSON object that `allennlp predict` writes."""

    tokens: list[str]
    tags: list[str]


@Model.register("own_pos")
class PosModel(ElmoModel):
    """
    Tags each token of a sentence. `ElmoModel` brings the word vectors, ELMo at the input and at the output of
    the biLSTM, the penalty on its mix, and archives that hold their biLM.

    # Parameters

    hidden_sizes : units of each biLSTM layer, for each direction.
    dropout : probability, of the variational dropout of the biLSTM.
    The others : see `ElmoModel`.
    """

    default_predictor = "own_pos"

    def __init__(self, *, hidden_sizes: Sizes, dropout: Probability, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.labels = self.label_names()
        self.encoder = BiLstm(input_dim=self.input_dim, hidden_sizes=hidden_sizes, dropout=dropout)
        self.output = nn.Linear(self.encoder.output_dim + self.elmo_output_dim, len(self.labels))
        self.accuracy = CategoricalAccuracy()
        self.initialize()

    def forward(
        self,
        tokens: TextFieldTensors,
        metadata: list[dict[str, Any]],
        tags: Optional[torch.Tensor] = None,
    ) -> Outputs:
        """*Shape:* `tags` `(batch, tokens)`, the gold tags, with which the outputs have a `loss`."""
        return self.decode(self.scores(tokens), metadata, tags)

    def scores(self, tokens: TextFieldTensors) -> Scores:
        """*Shape:* `logits` `(batch, tokens, labels)` and `mask` `(batch, tokens)`."""
        mask = get_text_field_mask(tokens)
        # (batch, tokens, input_dim)
        embedded, elmo = self.embed(tokens)
        # (batch, tokens, encoder dim + elmo_output_dim)
        encoded = self.at_output(self.encoder(embedded, mask), elmo)
        return {"logits": self.output(encoded), "mask": mask}

    def decode(
        self, scores: Scores, metadata: list[dict[str, Any]], tags: Optional[torch.Tensor] = None
    ) -> Outputs:
        """A tag that the training data lack has no loss, and counts as wrong."""
        logits, mask = scores["logits"], scores["mask"]
        outputs: Outputs = {"logits": logits, "mask": mask, "words": [each["words"] for each in metadata]}
        if tags is not None:
            seen = mask & (tags != UNSEEN)
            outputs["loss"] = sequence_cross_entropy_with_logits(logits, tags * seen, seen)
            self.accuracy(logits, tags, mask)
        return outputs

    def results(self, outputs: Outputs) -> list[PosResult]:
        """Returns the most probable tags of each sentence."""
        best = outputs["logits"].argmax(dim=-1).tolist()
        return [
            PosResult(words, [self.labels[label] for label in row[: len(words)]])
            for words, row in zip(outputs["words"], best, strict=True)
        ]

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        return {"accuracy": self.accuracy.get_metric(reset)}
