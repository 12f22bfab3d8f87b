"""The attention of BiDAF (Seo et al. 2017, arXiv:1611.01603), and that of Clark and Gardner 2017."""

import torch
from torch import nn

from elmo_tasks.modules.layers import attention


class TriLinear(nn.Module):
    """
    The similarity `w1 . x + w2 . y + w3 . (x * y)` of two vectors. A bias would cancel in the softmax.

    It is computed as a vector for each side and one product of two matrices, without any tensor of rows x
    columns x dim.
    """

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.empty(3, dim))
        bound = (6 / (3 * dim + 1)) ** 0.5
        nn.init.uniform_(self.weights, -bound, bound)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(batch, rows, dim)`, `(batch, columns, dim)` to `(batch, rows, columns)`."""
        left_weights, right_weights, product_weights = self.weights
        # (batch, rows, dim): one product with `right` gives the second term and the third.
        factors = torch.addcmul(right_weights, left, product_weights)
        return torch.baddbmm((left @ left_weights).unsqueeze(2), factors, right.mT)


class BidirectionalAttention(nn.Module):
    """
    Attention between a passage and a question, both of vectors of size `dim`. For each token h of the
    passage, it returns `[h, c, h * c, q * c]`: c is the attended question, and q the passage that the
    question attends to.
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
        attended_passage = to_passage.unsqueeze(1) @ passage
        outputs = torch.cat([passage, attended, passage * attended, attended_passage * attended], dim=2)
        return outputs, to_question


class SelfAttention(nn.Module):
    """Self-attention without the token itself: for each token h `[h, c, h * c]`, c what h attends to."""

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
        diagonal = torch.eye(mask.size(1), dtype=torch.bool, device=mask.device)
        # (batch, tokens, tokens)
        to_others = attention(self.similarity(passage, passage), mask.unsqueeze(1) & ~diagonal)
        # (batch, tokens, dim)
        attended = to_others @ passage
        return torch.cat([passage, attended, passage * attended], dim=2), to_others
