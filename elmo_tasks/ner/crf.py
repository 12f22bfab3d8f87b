"""
A linear-chain CRF (Lafferty et al. 2001) whose impossible transitions take no part in training or decoding.

The recursions along a sentence run for all sentences of a batch together: they share one tensor of step
scores, in which a step after the end of a sentence is the identity. So the likelihood takes fewer kernels
than pytorch-crf's, decoding does without a loop over sentences, and there are marginals.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

IMPOSSIBLE = -1e4
"""Score of an impossible transition. Its `exp` is exactly 0, and no infinity reaches a gradient."""


class Chain(NamedTuple):
    """
    The scores of all tag sequences of each sentence. A sequence scores the sum of its emissions and
    transitions, so the mean of several chains, tensor by tensor, scores each sequence with the mean of its
    scores.

    *Shape:* `emissions` `(batch, tokens, tags)`, `mask` `(batch, tokens)`, `start` and `end` `(tags,)`,
    `transitions` `(tags, tags)`, from the row's tag to the column's.
    """

    emissions: torch.Tensor
    mask: torch.Tensor
    start: torch.Tensor
    end: torch.Tensor
    transitions: torch.Tensor

    def log_likelihood(self, tags: torch.Tensor) -> torch.Tensor:
        """Returns the log-likelihood of a sequence each. *Shape:* `(batch, tokens)` to `(batch,)`."""
        return self._score(tags) - self._log_partition()

    @torch.no_grad()
    def best(self) -> torch.Tensor:
        """
        Finds the best sequences (Viterbi 1967). No score makes up for an impossible transition, not even in a
        training that diverges. *Shape:* `(batch, tokens)`, 0 where the mask is.
        """
        start, end, transitions = map(_mask_impossible, (self.start, self.end, self.transitions))
        # (batch, tags)
        scores = start + self.emissions[:, 0]
        backpointers = []
        for step in self._replace(transitions=transitions)._steps(-math.inf):
            # (batch, from, to) to (batch, to)
            scores, backpointer = (scores.unsqueeze(2) + step).max(dim=1)
            backpointers.append(backpointer)
        # (batch, 1)
        tags = [(scores + end).argmax(dim=1, keepdim=True)]
        for backpointer in reversed(backpointers):
            tags.append(backpointer.gather(1, tags[-1]))
        return torch.cat(tags[::-1], dim=1) * self.mask

    @torch.no_grad()
    def marginals(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        Returns the forward-backward lattice, in log space and double precision.

        *Shape:* alpha `(batch, tokens, tags)`, all sequences up to a tag, with its emission; beta `(batch,
        tokens, tags)`, all sequences after it; the partition `(batch,)`, all sequences.
        """
        # As minus infinities, whose `exp` is faster than for large negative numbers
        start, end, transitions = map(_mask_impossible, (self.start, self.end, self.transitions))
        emissions = self.emissions.double()
        steps = self._replace(emissions=emissions, transitions=transitions)._steps(-math.inf)
        # (2 * batch, tags): alpha from the first token on, and beta from the last one back, in one loop
        states = [torch.cat([start + emissions[:, 0], end.double().expand(len(emissions), -1)])]
        for step in torch.cat([steps, steps.flip(0).mT], dim=1):
            states.append((states[-1].unsqueeze(2) + step).logsumexp(dim=1))
        # (batch, tokens, tags) twice
        alpha, beta = torch.stack(states, dim=1).chunk(2)
        return alpha, beta.flip(1), (alpha[:, -1] + end).logsumexp(dim=1)

    @torch.no_grad()
    def span_probabilities(
        self, tags: torch.Tensor, spans: Sequence[Sequence[tuple[int, int]]]
    ) -> list[list[float]]:
        """
        Returns the probability that a sequence has the tags `tags[start:end]` there, and any tags elsewhere.
        *Shape:* `tags` `(batch, tokens)`, and the spans `[start, end)` of each sentence.
        """
        alpha, beta, log_z = self.marginals()
        here = tags.unsqueeze(2)
        emitted = self.emissions.double().gather(2, here).squeeze(2)
        steps = self.transitions.double()[tags[:, :-1], tags[:, 1:]] + emitted[:, 1:]
        # (batch, tokens): the score of the tags from the first token up to each
        path = torch.cat([steps.new_zeros(len(tags), 1), steps.cumsum(dim=1)], dim=1)
        # All sequences up to a token, and all after it, apart from the path itself
        before = (alpha.gather(2, here).squeeze(2) - path).tolist()
        after = (beta.gather(2, here).squeeze(2) + path - log_z.unsqueeze(1)).tolist()
        return [
            [min(1.0, math.exp(before[row][start] + after[row][end - 1])) for start, end in bounds]
            for row, bounds in enumerate(spans)
        ]

    def _steps(self, impossible: float = IMPOSSIBLE) -> torch.Tensor:
        """Returns the score of each step from tag to tag. *Shape:* `(tokens - 1, batch, tags, tags)`."""
        stay = torch.full_like(self.transitions, impossible).fill_diagonal_(0.0)
        emissions, mask = self.emissions.transpose(0, 1)[1:], self.mask.t()[1:]
        # (tokens - 1, batch, tags, tags)
        scores = self.transitions + emissions.unsqueeze(2)
        return torch.where(mask[:, :, None, None], scores, stay.to(scores.dtype))

    def _log_partition(self) -> torch.Tensor:
        """Returns the log of the partition function, a sum over all sequences. *Shape:* `(batch,)`."""
        # (batch, tags)
        scores = self.start + self.emissions[:, 0]
        for step in self._steps():
            # (batch, from, to) to (batch, to)
            scores = (scores.unsqueeze(2) + step).logsumexp(dim=1)
        return (scores + self.end).logsumexp(dim=1)

    def _score(self, tags: torch.Tensor) -> torch.Tensor:
        """Returns the score of one sequence for each sentence. *Shape:* `(batch, tokens)` to `(batch,)`."""
        # A sentence without tokens counts as one of one token, whose score is not used.
        lengths = self.mask.sum(dim=1, keepdim=True).clamp(min=1)
        mask = torch.arange(tags.size(1), device=tags.device) < lengths
        # (batch, tokens)
        scores = self.emissions.gather(2, tags.unsqueeze(2)).squeeze(2)
        steps = self.transitions.flatten()[tags[:, :-1] * len(self.start) + tags[:, 1:]]
        scores = scores + torch.cat([self.start[tags[:, :1]], steps], dim=1)
        last = tags.gather(1, lengths - 1).squeeze(1)
        return scores.masked_fill(~mask, 0.0).sum(dim=1) + self.end[last]


def _mask_impossible(scores: torch.Tensor) -> torch.Tensor:
    """Replaces impossible scores, also the means of several chains', by minus infinity."""
    return scores.masked_fill((scores - IMPOSSIBLE).abs() < 1, -math.inf)


class ConstrainedCrf(nn.Module):
    """
    The parameters of a CRF in which some transitions are impossible.

    *Shape:* `start` and `end` `(tags,)`, `True` where a sequence may start or end with the tag; `transitions`
    `(tags, tags)`, `True` where the column's tag may follow the row's.
    """

    def __init__(self, *, start: torch.Tensor, end: torch.Tensor, transitions: torch.Tensor) -> None:
        super().__init__()
        allowed = {"start_transitions": start, "end_transitions": end, "transitions": transitions}
        parameters = nn.ModuleDict({name: _ConstrainedScores(which) for name, which in allowed.items()})
        # The names that a `torchcrf.CRF` with parametrizations has in a state dict
        self.crf = nn.ModuleDict({"parametrizations": parameters})

    def forward(self, emissions: torch.Tensor, mask: torch.Tensor) -> Chain:
        """Returns the scores of a batch. *Shape:* `(batch, tokens, tags)`, `(batch, tokens)`."""
        # (tags,), (tags,), (tags, tags)
        start, end, transitions = (scores() for scores in self.crf["parametrizations"].children())
        return Chain(emissions, mask, start, end, transitions)


class _ConstrainedScores(nn.Module):
    """Scores of which the impossible ones are constant."""

    allowed: torch.Tensor

    def __init__(self, allowed: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("allowed", allowed, persistent=False)
        self.original = nn.Parameter(torch.empty(allowed.shape).uniform_(-0.1, 0.1))

    def forward(self) -> torch.Tensor:
        return self.original.masked_fill(~self.allowed, IMPOSSIBLE)
