"""Spans of tokens: all candidates of a text, their attention-weighted vectors, the best that do not cross."""

import torch
from allennlp.nn.util import masked_softmax
from torch.nn import functional as F


def candidate_spans(lengths: torch.Tensor, width: int) -> torch.Tensor:
    """
    All spans of at most `width` tokens that lie within a sentence, by their first, then their last token.

    *Shape:* tokens of each sentence `(sentences,)` to first and last token `(spans, 2)`, both inclusive and
    counted from the first sentence on.
    """
    # (tokens, 1): one behind the last token of the sentence
    ends = lengths.cumsum(0).repeat_interleave(lengths).unsqueeze(1)
    # (tokens, width)
    last = torch.arange(len(ends), device=lengths.device).unsqueeze(1) + torch.arange(
        width, device=lengths.device
    )
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
    # Under autocast the softmax has another precision
    return F.embedding_bag(indices, vectors, per_sample_weights=weights.to(vectors), mode="sum")


def best_without_crossing(spans: torch.Tensor, scores: torch.Tensor, most: int) -> torch.Tensor:
    """
    The best spans of which no two cross: by falling score, each that crosses none taken before it, until
    there are `most` (Lee et al. 2017, section 5). Spans that nest or are apart do not cross.

    *Shape:* first and last token `(spans, 2)`, `(spans,)` to the indices of those taken, in rising order,
    `(at most most,)`.
    """
    bounds = spans.tolist()
    size = 1 + max((last for _, last in bounds), default=0)
    # Of the spans taken, the last token of the longest that starts at a token, the first of that ending there
    reaches, starts = [-1] * size, [size] * size
    taken: list[int] = []
    for index in scores.argsort(descending=True, stable=True).tolist():
        if len(taken) == most:
            break
        first, last = bounds[index]
        crosses = any(reaches[token + 1] > last or starts[token] < first for token in range(first, last))
        if not crosses:
            taken.append(index)
            reaches[first] = max(reaches[first], last)
            starts[last] = min(starts[last], first)
    return torch.tensor(sorted(taken), dtype=torch.long, device=spans.device)
