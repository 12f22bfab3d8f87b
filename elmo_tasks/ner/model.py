"""The biLSTM-CRF tagger of the ELMo paper."""

from dataclasses import dataclass
from typing import Any

import torch
from allennlp.common import JsonDict
from allennlp.data import TextFieldTensors
from allennlp.models import Model
from allennlp.nn.util import get_text_field_mask
from torch import nn

from elmo_tasks.common.values import Probability, Sizes
from elmo_tasks.data.tag_schemes import Scheme, Span, allowed_transitions, from_spans, to_spans
from elmo_tasks.modules.elmo_model import ElmoModel, Outputs, Scores
from elmo_tasks.modules.layers import BiLstm
from elmo_tasks.ner.crf import Chain, ConstrainedCrf
from elmo_tasks.ner.metric import ConllEval
from elmo_tasks.ner.reader import NerSentence
from elmo_tasks.pipeline.results import Entities, Entity, TaskResult, label_names


@dataclass
class NerResult(TaskResult):
    """The entities of a sentence: their words `[start, end)`, and the probability of each."""

    sentence: NerSentence
    spans: list[Span]
    probabilities: list[float]

    @property
    def value(self) -> Entities:
        text, offsets = self.sentence.text, self.sentence.offsets
        entities = Entities()
        for span, probability in zip(self.spans, self.probabilities, strict=True):
            start, end = offsets[span.start][0], offsets[span.end - 1][1]
            entities.append(Entity(text[start:end], span.label, start, end, probability))
        return entities

    @property
    def label_names(self) -> dict[str, str]:
        return label_names([span.label for span in self.spans])

    def above(self, min_probability: float) -> "NerResult":
        """Returns the result without the entities of a lower probability."""
        pairs = zip(self.spans, self.probabilities, strict=True)
        kept = [(span, probability) for span, probability in pairs if probability >= min_probability]
        return NerResult(self.sentence, [span for span, _ in kept], [probability for _, probability in kept])

    def to_json(self) -> JsonDict:
        words = self.sentence.words
        return {
            "tokens": words,
            "tags": from_spans(self.spans, len(words), Scheme.IOB2),
            "entities": [
                {
                    "text": entity.text,
                    "type": entity.type,
                    "token_start": span.start,
                    "token_end": span.end,
                    "char_start": entity.start,
                    "char_end": entity.end,
                    "probability": entity.probability,
                }
                for span, entity in zip(self.spans, self.value, strict=True)
            ],
        }


@Model.register("elmo_ner")
class NerModel(ElmoModel):
    """
    Peters et al. 2018, section 4 and supplement: word vectors and a character CNN, two biLSTM layers, a CRF.
    Its tags are BIOUL; a sequence that BIOUL does not allow has probability 0 in training and is never
    predicted.

    # Parameters

    hidden_sizes : units of each biLSTM layer, for each direction.
    dropout : probability of the variational dropout around each biLSTM layer.
    The others : see `ElmoModel`.
    """

    default_predictor = "elmo_ner"
    metadata_class = NerSentence
    main_metrics = ("precision", "recall", "f1", "accuracy")
    without_gold = "the sentences have no tags"

    def __init__(self, *, hidden_sizes: Sizes, dropout: Probability, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tags = self.label_names()
        self.encoder = BiLstm(input_dim=self.input_dim, hidden_sizes=hidden_sizes, dropout=dropout)
        self.tag_projection = nn.Linear(self.encoder.output_dim + self.elmo_output_dim, len(self.tags))
        allowed = allowed_transitions(self.tags, Scheme.BIOUL)
        self.crf = ConstrainedCrf(start=allowed.start, end=allowed.end, transitions=allowed.transitions)
        self.metric = ConllEval()
        self.initialize()

    def forward(
        self, tokens: TextFieldTensors, metadata: list[NerSentence], tags: torch.Tensor | None = None
    ) -> Outputs:
        """
        Tags sentences. Returns the parts of the CRF's `Chain`, the best `tags`, `metadata`, and with gold
        tags the `loss`: the mean over the sentences of the negative log-likelihood.

        *Shape:* `tags` `(batch, tokens)`, gold and best.
        """
        return self.decode(self.scores(tokens), metadata, tags)

    def scores(self, tokens: TextFieldTensors) -> Scores:
        """Returns the parts of the CRF's `Chain`: an ensemble takes the mean of a sequence's scores."""
        mask = get_text_field_mask(tokens)
        # (batch, tokens, input_dim)
        embedded, elmo = self.embed(tokens)
        # (batch, tokens, encoder dim)
        encoded = self.encoder(embedded, mask)
        # (batch, tokens, tags)
        emissions = self.tag_projection(self.at_output(encoded, elmo))
        return self.crf(emissions, mask)._asdict()

    def decode(
        self, scores: Scores, metadata: list[NerSentence], tags: torch.Tensor | None = None
    ) -> Outputs:
        chain = Chain(**scores)
        # (batch, tokens)
        best = chain.best()
        outputs = {**scores, "tags": best, "metadata": metadata}
        self.lacks_gold = tags is None
        if tags is not None:
            outputs["loss"] = -chain.log_likelihood(tags).mean()
            predicted = [
                from_spans(spans, len(sentence.words), Scheme.IOB2)
                for spans, sentence in zip(self._spans(best, chain.mask), metadata, strict=True)
            ]
            self.metric(predicted, [sentence.gold_tags or [] for sentence in metadata])
        return outputs

    def results(self, outputs: Outputs) -> list[NerResult]:
        chain = Chain(**{name: outputs[name] for name in Chain._fields})
        spans = self._spans(outputs["tags"], chain.mask)
        probabilities = chain.span_probabilities(
            outputs["tags"], [[(span.start, span.end) for span in row] for row in spans]
        )
        return list(map(NerResult, outputs["metadata"], spans, probabilities))

    def _spans(self, tags: torch.Tensor, mask: torch.Tensor) -> list[list[Span]]:
        lengths = mask.sum(dim=1).tolist()
        return [
            to_spans([self.tags[tag] for tag in row[:length]], Scheme.BIOUL)
            for row, length in zip(tags.tolist(), lengths, strict=True)
        ]
