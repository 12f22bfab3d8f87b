"""The score of a question having no answer in its passage."""

import torch
from torch import nn

HIDDEN_SIZE = 80
"""Units of the hidden layer, as in Clark and Gardner 2017."""


class NoAnswerHead(nn.Module):
    """
    Clark and Gardner 2017, arXiv:1710.10723, section 3.3: two layers over three summaries of the passage, by
    where an answer would start, by where it would end, and by an attention of its own.

    # Parameters

    dim, start_dim, end_dim : sizes of what is summarised.
    """

    def __init__(self, *, dim: int, start_dim: int, end_dim: int) -> None:
        super().__init__()
        self.attention = nn.Linear(dim, 1)
        self.hidden = nn.Linear(dim + start_dim + end_dim, HIDDEN_SIZE)
        self.output = nn.Linear(HIDDEN_SIZE, 1)

    def forward(
        self,
        merged: torch.Tensor,
        start_states: torch.Tensor,
        end_states: torch.Tensor,
        start_log_probabilities: torch.Tensor,
        end_log_probabilities: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """
        *Shape:* the states, each `(batch, tokens, its size)`, the log probabilities that an answer starts and
        ends at a token, `(batch, tokens)`, and the mask, `(batch, tokens)`, to `(batch,)`.
        """
        # (batch, tokens)
        own = self.attention(merged).squeeze(2).masked_fill(~mask, -torch.inf).softmax(dim=1)
        weighted = (
            (own, merged),
            (start_log_probabilities.exp(), start_states),
            (end_log_probabilities.exp(), end_states),
        )
        # (batch, dim + start_dim + end_dim)
        summary = torch.cat([weights.unsqueeze(1) @ states for weights, states in weighted], dim=2).squeeze(1)
        return self.output(self.hidden(summary).relu()).squeeze(1)
