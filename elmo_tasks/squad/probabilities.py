"""Probabilities that say how often answers are right, and whether the passage tells."""

from collections.abc import Sequence
from math import log

import torch
from torch import nn
from torch.nn import functional as F

from elmo_tasks.squad.reader import SquadQuestion

FEATURES = 6
LEAST = log(1e-9)
"""Lower log probabilities of spans count as this one."""
NEAR = 20
"""The words before and after an answer among which those of the question are looked for."""
STEM = 4
"""The first letters by which words are compared. Shorter words, most of them function words, are left out."""


class AnswerProbabilities(nn.Module):
    """
    Two logistic models of `span_features`: that a span is right if the passage tells, and that the passage
    tells. Their `weights` `(2, FEATURES)` are fitted after the training, on other data. A state dict without
    them leaves the probabilities as they are.
    """

    weights: torch.Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weights", None)

    def _load_from_state_dict(self, state_dict: dict[str, torch.Tensor], prefix: str, *args: object) -> None:
        """PyTorch calls it."""
        if prefix + "weights" in state_dict:
            self.weights = torch.empty(2, FEATURES)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forward(
        self,
        best: torch.Tensor,
        indices: torch.Tensor,
        evidence: torch.Tensor,
        questions: Sequence[SquadQuestion],
    ) -> dict[str, torch.Tensor]:
        """
        Returns log probabilities of the `best` spans `(batch, n)`, and with `weights` the probability that
        the passage tells, `answerable` `(batch,)`. For the inputs see `span_features`.
        """
        if self.weights is None:
            return {"best": best}
        # (batch, n, 2)
        odds = span_features(best, indices, evidence, questions) @ self.weights.T
        right = torch.where(best > -torch.inf, F.logsigmoid(odds[..., 0]), best)
        return {"best": right, "answerable": odds[:, 0, 1].sigmoid()}


def span_features(
    best: torch.Tensor, indices: torch.Tensor, evidence: torch.Tensor, questions: Sequence[SquadQuestion]
) -> torch.Tensor:
    """
    Returns for each span its log probability and its margin to the best other span; and for each question the
    margin of the best span to the best one that shares no token with it, the `evidence`, the share of the
    question's words that are near the best span, and 1.

    *Shape:* log probabilities `(batch, n)`, the best first, first and last tokens `(batch, n, 2)`, and
    `(batch,)`, to `(batch, n, FEATURES)`.
    """
    # (batch, n)
    scores = best.clamp(min=LEAST)
    first, last = indices.unbind(dim=2)
    apart = (first > last[:, :1]) | (last < first[:, :1])
    # (batch, n): the second span for the first one, and the first for the others
    others = torch.cat([scores[:, 1:2], scores[:, :1].expand(-1, scores.size(1) - 1)], dim=1)
    # (batch,): the last one if all of them overlap
    distant = scores.where(apart, scores[:, -1:]).amax(dim=1)
    shares = [
        _share_near(question, start, end)
        for question, (start, end) in zip(questions, indices[:, 0].tolist(), strict=True)
    ]
    near = scores.new_tensor(shares)
    # (batch, n, 4)
    of_question = torch.stack([scores[:, 0] - distant, evidence, near, torch.ones_like(near)], dim=1)
    of_question = of_question.unsqueeze(1).expand(-1, scores.size(1), -1)
    return torch.cat([torch.stack([scores, scores - others], dim=2), of_question], dim=2)


def _share_near(question: SquadQuestion, first: int, last: int) -> float:
    stems = {_stem(word) for word in question.passage.words[max(0, first - NEAR) : last + NEAR + 1]}
    asked = [_stem(word) for word in question.question.words if len(word) >= STEM]
    return sum(stem in stems for stem in asked) / len(asked) if asked else 0.0


def _stem(word: str) -> str:
    return word[:STEM].lower()
