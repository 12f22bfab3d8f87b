"""The sentence encoder: a layer over ELMo, and pooling, trained by a head for each task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import torch
from allennlp.common import JsonDict
from allennlp.data import TextFieldTensors
from allennlp.models import Model
from allennlp.modules import InputVariationalDropout
from allennlp.nn.util import get_text_field_mask, masked_max
from torch import nn
from torch.nn import functional as F

from elmo_tasks.common.values import PositiveFloat, Probability, Size
from elmo_tasks.modules.elmo_model import ElmoModel, Outputs, Scores, choose_texts, stack_texts
from elmo_tasks.modules.layers import pair_features
from elmo_tasks.modules.static_vectors import StaticVectors
from elmo_tasks.pipeline.results import SentenceVector, TaskResult
from elmo_tasks.sentence.metric import TasksMetric
from elmo_tasks.sentence.reader import NO_LABEL, SentenceText, namespace_of

STATIC = 0.8
"""The best of the lengths that were tried, on the pairs of the dev data that belong together."""


@dataclass
class SentenceResult(TaskResult):
    tokens: list[str]
    vector: np.ndarray
    scores: np.ndarray

    @property
    def value(self) -> SentenceVector:
        return SentenceVector(self.tokens, self.vector, self.scores)

    def to_json(self) -> JsonDict:
        return {"tokens": self.tokens, "vector": self.vector.tolist(), "scores": self.scores.tolist()}


@Model.register("elmo_sentence")
class SentenceModel(ElmoModel):
    """
    Conneau et al. 2017, arXiv:1705.02364, with a layer in place of the biLSTM, since ELMo has read the
    context: the maximum of the layer's outputs over the tokens is the vector, which learns from several
    tasks. The vocabulary says which they are, see `SentenceReader`.

    - A linear layer finds the label of a sentence, from its vector. The scores of all such labels are a part
      of a prediction.
    - Two layers find the label of a pair, such as entailment, from u, v, |u - v| and u * v.
    - A pair without a label belongs together: among the second sentences of its batch, its own has the
      highest cosine, and the same from the other side (Logeswaran and Lee 2018, arXiv:1803.02893).

    # Parameters

    size : of a sentence's vector.
    head_size : of the hidden layer for pairs.
    dropout : probability, of the variational dropout on the token vectors with ELMo, and of the dropout on
        the inputs of the heads' layers.
    temperature : divides the cosines.
    static_vectors : their mean in a sentence is the second part of its vector, and is not trained. It has
        `STATIC` of the length of the first part.
    The others : see `ElmoModel`.
    """

    default_predictor = "elmo_sentence"
    metadata_class = SentenceText
    main_metrics = ("accuracy",)

    def __init__(
        self,
        *,
        size: Size,
        head_size: Size,
        dropout: Probability,
        temperature: PositiveFloat = 0.05,
        static_vectors: Optional[StaticVectors] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.temperature = temperature
        self.static_vectors = StaticVectors() if static_vectors is None else static_vectors
        self.token_dropout = InputVariationalDropout(dropout)
        self.projection = nn.Linear(self.input_dim + self.elmo_output_dim, size)
        self.heads = nn.ModuleDict()
        for namespace in self.fixed_namespaces:
            pairs = namespace.endswith("_pair_labels")
            layers = [nn.Dropout(dropout), nn.Linear(4 * size, head_size), nn.ReLU()] if pairs else []
            output = nn.Linear(head_size if pairs else size, self.vocab.get_vocab_size(namespace))
            self.heads[namespace] = nn.Sequential(*layers, nn.Dropout(dropout), output)
        self.sentence_heads = [name for name in self.heads if not name.endswith("_pair_labels")]
        self.metric = TasksMetric()
        self.initialize()

    @property
    def fixed_namespaces(self) -> Sequence[str]:  # type: ignore[override]
        """The namespaces of the tasks' labels."""
        return sorted(name for name in self.vocab.get_namespaces() if name.endswith("_labels"))

    def forward(
        self,
        sentence1: TextFieldTensors,
        metadata: list[SentenceText],
        sentence2: TextFieldTensors | None = None,
        label: torch.Tensor | None = None,
    ) -> Outputs:
        """
        Encodes sentences and pairs, which may be of different tasks. *Shape:* `label` `(batch,)`, ids among
        the labels of the own task, or `NO_LABEL`. Outputs: see `decode`.
        """
        return self.decode(self.scores(sentence1, sentence2), metadata, label)

    def scores(self, sentence1: TextFieldTensors, sentence2: TextFieldTensors | None = None) -> Scores:
        """*Shape:* `vectors` and, if there are any second sentences, `others`, both `(batch, size)`."""
        texts = sentence1 if sentence2 is None else stack_texts(sentence1, sentence2)
        # (texts,)
        has_words = get_text_field_mask(texts).any(dim=1)
        # (texts with words, size)
        found = self._sentences(choose_texts(texts, has_words.nonzero().squeeze(1)))
        # (texts, size)
        vectors = found.new_zeros(len(has_words), self.projection.out_features)
        vectors[has_words] = found
        if sentence2 is None:
            return {"vectors": vectors}
        first, second = vectors.chunk(2)
        return {"vectors": first, "others": second}

    def _sentences(self, tokens: TextFieldTensors) -> torch.Tensor:
        """*Shape:* `(texts, size)`."""
        mask = get_text_field_mask(tokens)
        # (texts, tokens, input_dim + elmo_output_dim)
        words = self.token_dropout(self.at_output(*self.embed(tokens)))
        return masked_max(self.projection(words), mask.unsqueeze(2), dim=1).relu()

    def decode(
        self, scores: Scores, metadata: Sequence[SentenceText], label: torch.Tensor | None = None
    ) -> Outputs:
        """
        Returns the scores and `metadata`, and with gold labels the `loss`: the mean over the rows of the
        batch of the negative log-likelihood of the label, or of the other sentence of a pair.
        """
        outputs: Outputs = {**scores, "metadata": metadata}
        if label is None:
            return outputs
        losses = []
        tasks = [(text.task, text.sentence2 is not None) for text in metadata]
        for task, pairs in dict.fromkeys(tasks):
            rows = [row for row, of_row in enumerate(tasks) if of_row == (task, pairs)]
            vectors, others, gold = scores["vectors"][rows], scores["others"][rows], label[rows]
            labelled = gold != NO_LABEL
            if labelled.any():
                features = pair_features(vectors, others) if pairs else vectors
                losses.append(self._classified(task, pairs, features[labelled], gold[labelled]))
            if not labelled.all():
                losses.append(self._matched(task, vectors[~labelled], others[~labelled]))
        outputs["loss"] = torch.stack(losses).sum() / len(label)
        return outputs

    def _classified(self, task: str, pairs: bool, features: torch.Tensor, gold: torch.Tensor) -> torch.Tensor:
        """Returns the sum of the losses. *Shape:* `(rows, dim)` and `(rows,)` to `()`."""
        # (rows, labels)
        logits = self.heads[namespace_of(task, pairs=pairs)](features)
        self.metric(task, logits.argmax(dim=1), gold)
        return F.cross_entropy(logits, gold, reduction="sum")

    def _matched(self, task: str, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Returns the sum of the losses. *Shape:* `(rows, size)`, both, to `()`."""
        # (rows, rows)
        logits = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T / self.temperature
        own = torch.arange(len(first), device=first.device)
        self.metric(task, logits.argmax(dim=1), own)
        both = F.cross_entropy(logits, own, reduction="sum") + F.cross_entropy(logits.T, own, reduction="sum")
        return both / 2

    @torch.no_grad()
    def results(self, outputs: Outputs) -> list[SentenceResult]:
        vectors = outputs["vectors"]
        # (batch, labels of all sentence heads)
        scores = torch.cat([self.heads[name](vectors) for name in self.sentence_heads], dim=1)
        texts = [text.sentence1 for text in outputs["metadata"]]
        # (batch, dim of the static vectors)
        static = STATIC * vectors.norm(dim=1, keepdim=True) * F.normalize(self.static_vectors(texts), dim=1)
        vectors = torch.cat([vectors, static], dim=1)
        rows = zip(texts, vectors.cpu().numpy(), scores.cpu().numpy(), strict=True)
        return [SentenceResult(tokens, vector, of_labels) for tokens, vector, of_labels in rows]

    def empty_result(self) -> SentenceResult:
        """Returns the result of a sentence without words."""
        labels = sum(self.vocab.get_vocab_size(name) for name in self.sentence_heads)
        sizes = (self.projection.out_features + self.static_vectors.dim, labels)
        return SentenceResult([], *(np.zeros(size, dtype=np.float32) for size in sizes))
