"""The best spans of tokens by the sum of a score of where they start and one of where they end."""

import torch
from torch.nn import functional as F


def span_scores(start: torch.Tensor, end: torch.Tensor, *, longest: int) -> torch.Tensor:
    """
    The score of every span of at most `longest` tokens: index `[i, k]` is that of the span of `k + 1` tokens
    that starts at token `i`.

    *Shape:* `(batch, tokens)` twice, minus infinity at padding, to `(batch, tokens, longest)`, minus infinity
    where there is no span.
    """
    # (batch, tokens, longest)
    ends = F.pad(end, (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)
    return start.unsqueeze(2) + ends


def best_spans(scores: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """
    The `number` best spans, or all where there are fewer indices, the best first; of equal ones in any order.

    *Shape:* of `span_scores` to the scores `(batch, number)`, and the first and the last token of each span
    `(batch, number, 2)`.
    """
    longest = scores.size(2)
    best, indices = scores.flatten(1).topk(min(number, scores[0].numel()), dim=1)
    # (batch, number)
    first = indices // longest
    return best, torch.stack([first, first + indices % longest], dim=2)
