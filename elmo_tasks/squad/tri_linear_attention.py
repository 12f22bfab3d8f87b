"""
The attention of BiDAF (Seo et al. 2017, arXiv:1611.01603), with residual self-attention as Clark and Gardner
2017 (arXiv:1710.10723, section 2.1) have added it.
"""

import torch
from torch import nn

from elmo_tasks.modules.attention import attention


class TriLinear(nn.Module):
    """
    The similarity `w1 . x + w2 . y + w3 . (x * y)` of two vectors. A bias would cancel in the softmax.

    It is a vector for each side and a product of two matrices, so that nothing of size rows x columns x dim
    is ever made.
    """

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.empty(3, dim))
        bound = (6 / (3 * dim + 1)) ** 0.5
        nn.init.uniform_(self.weights, -bound, bound)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(batch, rows, dim)`, `(batch, columns, dim)` to `(batch, rows, columns)`."""
        of_left, of_right, of_both = self.weights
        # (batch, rows, dim): one product with `right` gives the second term and the third.
        factors = torch.addcmul(of_right, left, of_both)
        return torch.baddbmm((left @ of_left).unsqueeze(2), factors, right.mT)


class BidirectionalAttention(nn.Module):
    """
    Gives for each token of a passage itself h, what it finds in the question c, their product h * c, and q *
    c, where q is what the question finds in the passage.

    # Parameters

    dim : size of a token's vector, in passage and question.
    """

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.similarity = TriLinear(dim=dim)
        self.output_dim = 4 * dim

    def forward(
        self,
        passage: torch.Tensor,
        question: torch.Tensor,
        passage_mask: torch.Tensor,
        question_mask: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        *Shape:* `(batch, tokens, dim)`, `(batch, words, dim)` and their masks, to `(batch, tokens,
        output_dim)` and the attention over the question, `(batch, tokens, words)`.
        """
        # (batch, tokens, words)
        similarity = self.similarity(passage, question)
        # (batch, 1, words)
        real_words = question_mask.unsqueeze(1)
        # (batch, tokens, words)
        to_question = attention(similarity, real_words)
        # (batch, tokens, dim)
        attended = to_question @ question
        # (batch, tokens)
        to_passage = attention(similarity.masked_fill(~real_words, -torch.inf).amax(dim=2), passage_mask)
        # (batch, 1, dim)
        asked = to_passage.unsqueeze(1) @ passage
        return torch.cat([passage, attended, passage * attended, asked * attended], dim=2), to_question


class SelfAttention(nn.Module):
    """
    Gives for each token of a passage itself h, what it finds in the others c, and h * c.

    # Parameters

    dim : size of a token's vector.
    """

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.similarity = TriLinear(dim=dim)
        self.output_dim = 3 * dim

    def forward(self, passage: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """
        *Shape:* `(batch, tokens, dim)`, `(batch, tokens)` to `(batch, tokens, output_dim)` and the attention,
        `(batch, tokens, tokens)`, whose diagonal is 0.
        """
        # (tokens, tokens)
        itself = torch.eye(mask.size(1), dtype=torch.bool, device=mask.device)
        # (batch, tokens, tokens)
        to_others = attention(self.similarity(passage, passage), mask.unsqueeze(1) & ~itself)
        # (batch, tokens, dim)
        attended = to_others @ passage
        return torch.cat([passage, attended, passage * attended], dim=2), to_others
