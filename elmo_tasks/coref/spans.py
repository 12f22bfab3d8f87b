"""
The spans that may be mentions (Lee et al. 2017, sections 3 and 4), and the scores of earlier spans as their
antecedents, with the inference of Lee et al. 2018 (arXiv:1804.05392).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from allennlp.nn.util import masked_softmax
from torch import nn
from torch.nn import functional as F

from elmo_tasks.coref.reader import UNKNOWN_SPEAKER

SCORED_SPANS = 32_768


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
    The possible mentions of a document. A span has the vector g = [first; last; soft head; width] (section
    4): the context vectors of its first and last word, the mean of its word vectors by an attention over
    context vectors, and a feature of its width. Its score is w . FFNN(g) (section 3).

    The first layer of that FFNN is applied to the parts of g before they are concatenated: its products are
    of words, and not of the many spans. Only the spans that are kept have a g.

    `spans_per_word` is lambda of section 5: the number of spans that are kept, of which no two cross.
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
        self.attention = nn.Sequential(
            nn.Linear(context_dim, hidden_sizes[0]), scoring_layers(hidden_sizes, dropout)
        )
        self.width = feature(max_width, feature_dim)
        self.parts = [context_dim, context_dim, word_dim, feature_dim]
        self.output_dim = sum(self.parts)
        self.projection = nn.Linear(self.output_dim, hidden_sizes[0])
        self.scorer = scoring_layers(hidden_sizes, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: torch.Tensor, context: torch.Tensor, lengths: torch.Tensor) -> Mentions:
        """
        *Shape:* the vectors of a document's words `(words, word_dim)` and `(words, context_dim)`, and the
        number of words in each sentence, `(sentences,)`.
        """
        # (words,)
        attention = self.attention(context).squeeze(1)
        # (widths, feature_dim)
        widths = self.dropout(self.width.weight)
        # (spans, 2)
        spans = candidate_spans(lengths, self.max_width)
        # (spans,)
        scores = self._scores(words, context, attention, widths, spans)
        max_spans = max(1, int(self.spans_per_word * len(words)))
        # (kept,)
        best = best_without_crossing(spans, scores.detach(), max_spans)
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
        for part in spans.split(SCORED_SPANS):
            first, last = part.unbind(1)
            # (part of spans, hidden)
            hidden = attended_spans(heads, attention, part, self.max_width)
            hidden = hidden + F.embedding(first, firsts) + F.embedding(last, lasts)
            scores.append(self.scorer(hidden + F.embedding(last - first, widths)).squeeze(1))
        return torch.cat(scores)


def candidate_spans(lengths: torch.Tensor, width: int) -> torch.Tensor:
    """
    Finds the spans of at most `width` tokens within a sentence, sorted. *Shape:* tokens of each sentence
    `(sentences,)` to first and last token in the text, both inclusive, `(spans, 2)`.
    """
    # (tokens, 1): the end of the token's sentence
    ends = lengths.cumsum(0).repeat_interleave(lengths).unsqueeze(1)
    tokens = torch.arange(len(ends), device=lengths.device)
    # (tokens, width)
    last = tokens.unsqueeze(1) + torch.arange(width, device=lengths.device)
    first = last[:, :1].expand_as(last)
    within = last < ends
    return torch.stack([first[within], last[within]], dim=1)


def attended_spans(
    vectors: torch.Tensor, scores: torch.Tensor, spans: torch.Tensor, width: int
) -> torch.Tensor:
    """
    Returns for each span the mean of its tokens' vectors, weighted by the softmax of their scores: the soft
    head of Lee et al. 2017, section 4.1. No tensor of (spans, width, dim) is built.

    *Shape:* `(tokens, dim)`, `(tokens,)` and first and last token of spans of at most `width` tokens,
    `(spans, 2)`, to `(spans, dim)`.
    """
    # (spans, width)
    indices = spans[:, :1] + torch.arange(width, device=spans.device)
    inside = indices <= spans[:, 1:]
    indices = indices.where(inside, spans[:, :1])
    # (spans, width)
    weights = masked_softmax(
        scores.index_select(0, indices.flatten()).view_as(indices), inside, memory_efficient=True
    )
    # Under autocast the softmax has another precision.
    return F.embedding_bag(indices, vectors, per_sample_weights=weights.to(vectors), mode="sum")


def best_without_crossing(spans: torch.Tensor, scores: torch.Tensor, max_spans: int) -> torch.Tensor:
    """
    Returns the best spans of which no two cross: by falling score, each that crosses none taken before, up to
    `max_spans` (Lee et al. 2017, section 5). Spans that nest or are disjoint do not cross.

    *Shape:* first and last token `(spans, 2)`, `(spans,)` to the indices of the spans taken, in rising order,
    `(at most max_spans,)`.
    """
    # NumPy's `tolist` is much faster than PyTorch's.
    bounds = spans.numpy(force=True).tolist()
    size = 1 + max((last for _, last in bounds), default=0)
    # For each token: the last token of the longest span taken there, the first of the longest that ends there
    longest_end, longest_start = [-1] * size, [size] * size
    taken: list[int] = []
    for index in scores.argsort(descending=True, stable=True).numpy(force=True).tolist():
        if len(taken) == max_spans:
            break
        first, last = bounds[index]
        crosses = any(
            longest_end[token + 1] > last or longest_start[token] < first for token in range(first, last)
        )
        if not crosses:
            taken.append(index)
            longest_end[first] = max(longest_end[first], last)
            longest_start[last] = min(longest_start[last], first)
    return torch.tensor(sorted(taken), dtype=torch.long, device=spans.device)


def scoring_layers(hidden_sizes: list[int], dropout: float) -> nn.Sequential:
    """Returns an FFNN after its first product. *Shape:* `(..., hidden_sizes[0])` to scores `(..., 1)`."""
    layers: list[nn.Module] = []
    for size, next_size in pairwise([*hidden_sizes, 1]):
        layers += [nn.ReLU(inplace=True), nn.Dropout(dropout), nn.Linear(size, next_size)]
    return nn.Sequential(*layers)


def feature(num_values: int, dim: int) -> nn.Embedding:
    embedding = nn.Embedding(num_values, dim)
    nn.init.xavier_uniform_(embedding.weight)
    return embedding


SPANS_OF_A_BLOCK = 8
"""With more, more pairs are computed that no span asks for."""
COARSE_ROWS = 1024
_DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)
"""The distances at which buckets begin (Clark and Manning 2016, arXiv:1606.01323, appendix)."""
_SPEAKERS = 3
"""Kinds of pairs of speakers: one or both unknown, different, the same."""


class AntecedentScorer(nn.Module):
    """
    The score of each span with each of its possible antecedents, s_m(i) + s_m(j) + s_a(i, j).

    # Parameters

    span_dim : size of a span's vector g.
    feature_dim : size of the vectors of distance, speakers and genre.
    max_antecedents : K of section 5.
    coarse_to_fine : choose the K antecedents with the best scores s_m(i) + s_m(j) + s_c(i, j), s_c = g_i W
        g_j, which is then added to the score (Lee et al. 2018, section 4). Otherwise these are the K nearest
        spans.
    inference_order : how often the pairs are scored. In between, each g becomes a gated mean of itself and
        its expected antecedent (Lee et al. 2018, section 3).
    """

    def __init__(
        self,
        *,
        span_dim: int,
        feature_dim: int,
        genres: int,
        max_antecedents: int,
        coarse_to_fine: bool,
        inference_order: int,
        hidden_sizes: list[int],
        dropout: float,
    ) -> None:
        super().__init__()
        self.max_antecedents = max_antecedents
        self.inference_order = inference_order
        self.pairs = PairScorer(
            span_dim=span_dim,
            feature_dim=feature_dim,
            genres=genres,
            nearest=not coarse_to_fine,
            hidden_sizes=hidden_sizes,
            dropout=dropout,
        )
        self.coarse = nn.Linear(span_dim, span_dim, bias=False) if coarse_to_fine else None
        self.gate = nn.Linear(2 * span_dim, span_dim) if inference_order > 1 else None
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, mentions: Mentions, speakers: torch.Tensor, genre: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        *Shape:* the speaker of each span `(kept,)`, genre `(1,)`. Returns the indices of the antecedents
        among the spans `(kept, antecedents)`, -1 for none, and the scores `(kept, 1 + antecedents)`: first
        the score of no antecedent, which is 0; -inf for an index -1.
        """
        vectors = mentions.vectors
        k = max(1, min(self.max_antecedents, len(vectors) - 1))
        # (kept, antecedents) twice
        antecedents, coarse = self._nearest(mentions, k) if self.coarse is None else self._best(mentions, k)
        for refinements_left in reversed(range(self.inference_order)):
            # (kept, 1 + antecedents)
            scores = F.pad(coarse + self.pairs(vectors, antecedents, speakers, genre), (1, 0))
            if refinements_left:
                vectors = self._refine(vectors, antecedents, scores)
        return antecedents, scores

    def _nearest(self, mentions: Mentions, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """*Shape:* `(kept, k)` twice: the spans before each, the nearest first, and s_m(i) + s_m(j)."""
        of_span = mentions.scores.unsqueeze(1)
        indices = torch.arange(len(of_span), device=of_span.device).unsqueeze(1)
        antecedents = (indices - 1 - torch.arange(k, device=of_span.device)).clamp(min=-1)
        scores = of_span + F.embedding(antecedents.clamp(min=0), of_span).squeeze(2)
        return antecedents, scores.masked_fill(antecedents < 0, -torch.inf)

    def _best(self, mentions: Mentions, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """*Shape:* `(kept, k)` twice: the spans before each that score best, and these scores."""
        assert self.coarse is not None
        projected = self.dropout(self.coarse(mentions.vectors))
        indices = torch.arange(len(projected), device=projected.device)
        antecedents, scores = [], []
        for rows in indices.split(COARSE_ROWS):
            # (rows, kept)
            pairs = (
                projected[rows] @ mentions.vectors.t() + mentions.scores[rows].unsqueeze(1) + mentions.scores
            )
            best, columns = pairs.masked_fill(indices >= rows.unsqueeze(1), -torch.inf).topk(k)
            antecedents.append(columns.masked_fill(best.isinf(), -1))
            scores.append(best)
        return torch.cat(antecedents), torch.cat(scores)

    def _refine(self, vectors: torch.Tensor, antecedents: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """*Shape:* g `(kept, span_dim)`, `(kept, antecedents)`, `(kept, 1 + antecedents)` to the next g."""
        assert self.gate is not None
        # (kept, 1 + antecedents): without an antecedent, the span itself
        itself = torch.arange(len(vectors), device=vectors.device).unsqueeze(1)
        choices = torch.cat([itself, antecedents], dim=1)
        # (kept, span_dim)
        expected = F.embedding_bag(
            choices.clamp(min=0), vectors, per_sample_weights=scores.softmax(dim=1), mode="sum"
        )
        gate = self.gate(torch.cat([vectors, expected], dim=1)).sigmoid()
        return gate * vectors + (1 - gate) * expected


class PairScorer(nn.Module):
    """
    s_a(i, j) = w . FFNN([g_i; g_j; g_i * g_j; distance; speakers; genre]), Lee et al. 2017, section 4.

    The first layer is applied to the parts before they are concatenated: only the product needs a vector for
    each pair, and no g_i * g_j is ever built, since W (g_i * g_j) = (W * g_i) g_j. A few spans at a time are
    scored with all columns that hold antecedents of theirs.

    `nearest` says that the antecedents of a span are right before it, so that neighbours share most.
    """

    def __init__(
        self,
        *,
        span_dim: int,
        feature_dim: int,
        genres: int,
        nearest: bool,
        hidden_sizes: list[int],
        dropout: float,
    ) -> None:
        super().__init__()
        self.nearest = nearest
        self.distance = feature(len(_DISTANCES) + 1, feature_dim)
        self.speakers = feature(_SPEAKERS, feature_dim)
        self.genre = feature(genres, feature_dim)
        self.parts = [span_dim] * 3 + [feature_dim] * 3
        self.projection = nn.Linear(sum(self.parts), hidden_sizes[0])
        self.scorer = scoring_layers(hidden_sizes, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, vectors: torch.Tensor, antecedents: torch.Tensor, speakers: torch.Tensor, genre: torch.Tensor
    ) -> torch.Tensor:
        """*Shape:* `(kept, span_dim)`, `(kept, antecedents)`, `(kept,)`, `(1,)` to `(kept, antecedents)`."""
        of_span, of_antecedent, of_pair, *of_features = self.projection.weight.split(self.parts, dim=1)
        # (kept, hidden) twice
        as_span = F.linear(vectors, of_span, self.projection.bias)
        as_antecedent = F.linear(vectors, of_antecedent)
        # (distances * speakers, hidden)
        features = self._features(of_features, genre)
        scores = []
        for rows in torch.arange(len(vectors), device=vectors.device).split(SPANS_OF_A_BLOCK):
            # (rows, antecedents)
            indices = antecedents[rows].clamp(min=0)
            # (columns,), or (rows, columns)
            columns = (
                torch.arange(int(indices.min()), int(rows[-1]) + 1, device=rows.device)
                if self.nearest
                else indices
            )
            # (rows, hidden, span_dim)
            weights = of_pair * vectors[rows].unsqueeze(1)
            # (rows, columns, hidden)
            hidden = F.embedding(columns, vectors) @ weights.mT
            hidden += as_span[rows].unsqueeze(1)
            hidden += F.embedding(columns, as_antecedent)
            hidden += F.embedding(_pair_kinds(rows, columns, speakers), features)
            # (rows, columns)
            of_columns = self.scorer(hidden).squeeze(2)
            scores.append(of_columns.gather(1, indices - columns[0]) if self.nearest else of_columns)
        return torch.cat(scores)

    def _features(self, weights: Sequence[torch.Tensor], genre: torch.Tensor) -> torch.Tensor:
        """*Shape:* the share of each kind of pair in the hidden layer, `(distances * speakers, hidden)`."""
        embedded = (self.distance.weight, self.speakers.weight, self.genre(genre))
        distance, speakers, genre = (
            F.linear(self.dropout(vectors), weight) for vectors, weight in zip(embedded, weights, strict=True)
        )
        return (distance.unsqueeze(1) + speakers + genre).flatten(0, 1)


def _pair_kinds(rows: torch.Tensor, columns: torch.Tensor, speakers: torch.Tensor) -> torch.Tensor:
    """*Shape:* `(rows,)`, `(columns,)` or `(rows, columns)`, `(kept,)` to their kind `(rows, columns)`."""
    bounds = torch.tensor(_DISTANCES, device=rows.device)
    distance = torch.bucketize(rows.unsqueeze(1) - columns, bounds, right=True)
    speaker, other = speakers[rows].unsqueeze(1), speakers[columns]
    both_known = (speaker != UNKNOWN_SPEAKER) & (other != UNKNOWN_SPEAKER)
    return distance * _SPEAKERS + both_known.long() * (1 + (speaker == other).long())


def reference_probabilities(
    antecedents: torch.Tensor, probabilities: torch.Tensor, pronouns: list[int]
) -> torch.Tensor:
    """
    Computes the probability that a pronoun refers to each other mention, where a link to a pronoun is
    followed to what that one refers to.

    *Shape:* `antecedents` `(spans, antecedents)`, -1 for none, all before their span; `probabilities`
    `(spans, 1 + antecedents)`, first that there is none; the indices of the `pronouns` among the spans, in
    order; to `(pronouns, spans)`.
    """
    columns = torch.tensor(pronouns, dtype=torch.long, device=antecedents.device)
    # One more column, for no antecedent
    links = probabilities.new_zeros(len(pronouns), len(antecedents) + 1)
    links.scatter_(1, antecedents[columns] % links.size(1), probabilities[columns, 1:])
    to_pronouns = links[:, columns]
    names = links[:, :-1].index_fill(1, columns, 0)
    for row in range(1, len(pronouns)):
        names[row] += to_pronouns[row, :row] @ names[:row]
    return names
