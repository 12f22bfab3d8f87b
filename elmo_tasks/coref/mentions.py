"""Which spans may be mentions: their vectors, their scores, and the best of them (Lee et al. 2017)."""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from elmo_tasks.coref.feed_forward import feature, feed_forward, scoring_layers
from elmo_tasks.coref.spans import attended_spans, best_without_crossing, candidate_spans

SPANS_AT_ONCE = 32_768
"""Spans that are scored together."""


class Mentions(NamedTuple):
    """
    The spans that are kept, in the order of the text.

    *Shape:* first and last token `(kept, 2)`, g `(kept, dim)`, mention scores `(kept,)`.
    """

    spans: torch.Tensor
    vectors: torch.Tensor
    scores: torch.Tensor


class MentionFinder(nn.Module):
    """
    Section 4: a span is g = [first; last; soft head; width], of the context vectors of its first and last
    word, the mean of its word vectors by an attention over context vectors, and a feature of its width.
    Section 3: its score is w . FFNN(g).

    The first layer of that FFNN is applied to the parts of g before they are put together: the products are
    of the words, not of the many spans. Only the spans that are kept have a g.

    # Parameters

    word_dim, context_dim : size of a word vector, and of a context vector.
    hidden_sizes, dropout : of the two FFNNs.
    feature_dim : size of the width's vector.
    max_width : words of the longest span.
    spans_per_word : lambda of section 5: so many spans are kept, of which no two cross.
    """

    def __init__(
        self,
        *,
        word_dim: int,
        context_dim: int,
        hidden_sizes: list[int],
        dropout: float,
        feature_dim: int,
        max_width: int,
        spans_per_word: float,
    ) -> None:
        super().__init__()
        self.max_width = max_width
        self.spans_per_word = spans_per_word
        self.attention = feed_forward(context_dim, hidden_sizes, dropout)
        self.width = feature(max_width, feature_dim)
        self.parts = [context_dim, context_dim, word_dim, feature_dim]
        self.output_dim = sum(self.parts)
        self.projection = nn.Linear(self.output_dim, hidden_sizes[0])
        self.scorer = scoring_layers(hidden_sizes, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: torch.Tensor, context: torch.Tensor, lengths: torch.Tensor) -> Mentions:
        """
        *Shape:* the vectors of a document's words `(words, word_dim)` and `(words, context_dim)`, and the
        words of each sentence, `(sentences,)`.
        """
        # (words,)
        attention = self.attention(context).squeeze(1)
        # (widths, feature_dim)
        widths = self.dropout(self.width.weight)
        # (spans, 2)
        spans = candidate_spans(lengths, self.max_width)
        # (spans,)
        scores = self._scores(words, context, attention, widths, spans)
        most = max(1, int(self.spans_per_word * len(words)))
        # (kept,)
        best = best_without_crossing(spans, scores.detach(), most)
        first, last = spans[best].unbind(1)
        # (kept, output_dim)
        vectors = torch.cat(
            [
                F.embedding(first, context),
                F.embedding(last, context),
                attended_spans(words, attention, spans[best], self.max_width),
                F.embedding(last - first, widths),
            ],
            dim=1,
        )
        return Mentions(spans[best], vectors, scores.index_select(0, best))

    def _scores(
        self,
        words: torch.Tensor,
        context: torch.Tensor,
        attention: torch.Tensor,
        widths: torch.Tensor,
        spans: torch.Tensor,
    ) -> torch.Tensor:
        """*Shape:* as in `forward`; `(words,)`, `(widths, feature_dim)`, `(spans, 2)` to `(spans,)`."""
        of_first, of_last, of_head, of_width = self.projection.weight.split(self.parts, dim=1)
        # (words, hidden) three times, (widths, hidden)
        firsts = F.linear(context, of_first, self.projection.bias)
        lasts = F.linear(context, of_last)
        heads = F.linear(words, of_head)
        widths = F.linear(widths, of_width)
        scores = []
        for part in spans.split(SPANS_AT_ONCE):
            first, last = part.unbind(1)
            # (part of spans, hidden)
            hidden = attended_spans(heads, attention, part, self.max_width)
            hidden = hidden + F.embedding(first, firsts) + F.embedding(last, lasts)
            scores.append(self.scorer(hidden + F.embedding(last - first, widths)).squeeze(1))
        return torch.cat(scores)
