"""
A linear-chain CRF (Lafferty et al. 2001) whose impossible transitions take no part in training or decoding.

pytorch-crf computes the likelihood. Decoding is done here for all sentences of a batch at once, and so
are the marginals that pytorch-crf does not have.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.utils import parametrize
from torchcrf import CRF

IMPOSSIBLE = -1e4
"""Score of an impossible transition: `exp` of it is exactly 0, and no infinity reaches a gradient."""


class Marginals(NamedTuple):
    """
    The forward-backward lattice, in log space.

    *Shape:* `alpha` `(batch, tokens, tags)`: all that leads to a tag, its emission included; `beta` `(batch,
    tokens, tags)`: all that follows it; `log_z` `(batch,)`: all sequences.
    """

    alpha: torch.Tensor
    beta: torch.Tensor
    log_z: torch.Tensor


class ConstrainedCrf(nn.Module):
    """
    # Parameters

    start : `(tags,)`, `True` where a sequence may start with the tag.
    end : `(tags,)`, `True` where it may end with it.
    transitions : `(tags, tags)`, `True` where the column's tag may follow the row's.
    """

    def __init__(self, *, start: torch.Tensor, end: torch.Tensor, transitions: torch.Tensor) -> None:
        super().__init__()
        self.crf = _Crf(len(start), batch_first=True)
        for name, allowed in (
            ("start_transitions", start),
            ("end_transitions", end),
            ("transitions", transitions),
        ):
            parametrize.register_parametrization(self.crf, name, _Possible(allowed))

    def log_likelihood(self, emissions: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(batch, tokens, tags)`, `(batch, tokens)` twice, to `(batch,)`."""
        with parametrize.cached():
            return self.crf(emissions, tags, _with_first(mask), reduction="none")

    @torch.no_grad()
    def decode(self, emissions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """
        The best sequence of each sentence (Viterbi 1967).

        *Shape:* `(batch, tokens, tags)`, `(batch, tokens)` to `(batch, tokens)`, 0 where the mask is.
        """
        transitions = self.crf.transitions
        # (batch, tags)
        scores = self.crf.start_transitions + emissions[:, 0]
        origins = []
        for step in range(1, emissions.size(1)):
            # (batch, from, to) to (batch, to)
            best, origin = (scores.unsqueeze(2) + transitions).max(dim=1)
            origins.append(origin)
            scores = torch.where(mask[:, step, None], best + emissions[:, step], scores)
        # (batch, 1)
        tag = (scores + self.crf.end_transitions).argmax(dim=1, keepdim=True)
        tags = [tag]
        for step, origin in zip(range(emissions.size(1) - 1, 0, -1), origins[::-1], strict=True):
            tag = torch.where(mask[:, step, None], origin.gather(1, tag), tag)
            tags.append(tag)
        return torch.cat(tags[::-1], dim=1) * mask

    @torch.no_grad()
    def marginals(self, emissions: torch.Tensor, mask: torch.Tensor) -> Marginals:
        """*Shape:* `(batch, tokens, tags)`, `(batch, tokens)`; in double precision."""
        emissions, mask = emissions.double(), _with_first(mask)
        transitions = self.crf.transitions.double()
        alpha = [self.crf.start_transitions + emissions[:, 0]]
        for step in range(1, emissions.size(1)):
            # (batch, from, to) to (batch, to)
            onward = (alpha[-1].unsqueeze(2) + transitions).logsumexp(dim=1) + emissions[:, step]
            alpha.append(torch.where(mask[:, step, None], onward, alpha[-1]))
        beta = [self.crf.end_transitions.double().expand_as(alpha[0])]
        for step in range(emissions.size(1) - 1, 0, -1):
            # (batch, from, to) to (batch, from)
            after = (emissions[:, step] + beta[-1]).unsqueeze(1)
            beta.append(torch.where(mask[:, step, None], (transitions + after).logsumexp(dim=2), beta[-1]))
        log_z = (alpha[-1] + self.crf.end_transitions).logsumexp(dim=1)
        return Marginals(torch.stack(alpha, dim=1), torch.stack(beta[::-1], dim=1), log_z)

    @torch.no_grad()
    def span_probabilities(
        self,
        emissions: torch.Tensor,
        mask: torch.Tensor,
        tags: torch.Tensor,
        spans: Sequence[Sequence[tuple[int, int]]],
    ) -> list[list[float]]:
        """
        For each sentence's spans `[start, end)`: the probability that a sequence drawn from the CRF has just
        the tags `tags[start:end]` there, whatever it has elsewhere.

        *Shape:* `(batch, tokens, tags)`, `(batch, tokens)` twice, and the spans of each sentence.
        """
        alpha, beta, log_z = self.marginals(emissions, mask)
        here = tags.unsqueeze(2)
        emitted = emissions.double().gather(2, here).squeeze(2)
        steps = self.crf.transitions.double()[tags[:, :-1], tags[:, 1:]] + emitted[:, 1:]
        # (batch, tokens): the score of the tags up to a token, from the first on
        path = torch.cat([steps.new_zeros(len(tags), 1), steps.cumsum(dim=1)], dim=1)
        # Whatever leads to a token, and whatever follows it, apart from the path itself
        before = (alpha.gather(2, here).squeeze(2) - path).tolist()
        after = (beta.gather(2, here).squeeze(2) + path - log_z.unsqueeze(1)).tolist()
        return [
            [min(1.0, math.exp(before[row][start] + after[row][end - 1])) for start, end in places]
            for row, places in enumerate(spans)
        ]


class _Crf(CRF):
    """pytorch-crf, with the score of the gold tags computed for all steps at once: the same numbers."""

    def _compute_score(self, emissions: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(tokens, batch, tags)`, `(tokens, batch)` twice, to `(batch,)`."""
        # (tokens, batch)
        scores = emissions.gather(2, tags.unsqueeze(2)).squeeze(2)
        steps = self.transitions.flatten()[tags[:-1] * self.num_tags + tags[1:]]
        scores = scores + torch.cat([self.start_transitions[tags[:1]], steps])
        last = tags.gather(0, mask.sum(dim=0, keepdim=True) - 1).squeeze(0)
        return scores.masked_fill(~mask, 0.0).sum(dim=0) + self.end_transitions[last]


class _Possible(nn.Module):
    """Parametrization that pins the impossible scores."""

    allowed: torch.Tensor

    def __init__(self, allowed: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("allowed", allowed, persistent=False)

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return scores.masked_fill(~self.allowed, IMPOSSIBLE)


def _with_first(mask: torch.Tensor) -> torch.Tensor:
    """A sequence without tokens is run as one of one token, which the caller does not use."""
    mask = mask.clone()
    mask[:, 0] = True
    return mask
