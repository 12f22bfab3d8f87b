"""
The scores of earlier spans as antecedents of each span: the pair scores of Lee et al. 2017, sections 3 and 4,
and the inference of Lee et al. 2018 (arXiv:1804.05392).
"""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from elmo_tasks.coref.mentions import Mentions, feature, scoring_layers
from elmo_tasks.coref.reader import UNKNOWN_SPEAKER

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

    # Parameters

    nearest : whether the antecedents of a span are the spans right before it, so that neighbours share most.
    The others : see `AntecedentScorer`.
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
    known = (speaker != UNKNOWN_SPEAKER) & (other != UNKNOWN_SPEAKER)
    return distance * _SPEAKERS + known.long() * (1 + (speaker == other).long())
