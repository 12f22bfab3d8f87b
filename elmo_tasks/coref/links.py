"""What follows from the scores of antecedents: clusters, and the scores of an ensemble."""

from collections.abc import Sequence
from math import log

import torch

from elmo_tasks.coref.documents import Cluster, Mention


def clusters_from_links(spans: Sequence[Mention], antecedents: Sequence[int]) -> list[Cluster]:
    """
    The clusters that links from spans to earlier ones make; the index of each span's antecedent, -1 for none.
    """
    clusters: list[Cluster] = []
    cluster_of: dict[int, Cluster] = {}
    for index, antecedent in enumerate(antecedents):
        if antecedent >= 0:
            if antecedent not in cluster_of:
                clusters.append([spans[antecedent]])
                cluster_of[antecedent] = clusters[-1]
            cluster_of[index] = cluster_of[antecedent]
            cluster_of[index].append(spans[index])
    return sorted(map(sorted, clusters))


def mean_of_members(members: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """
    The scores of an ensemble for one document: the logarithm of the mean of its members' distributions over
    antecedents. The members may have kept other spans: all are kept, and a member takes a span that it did
    not keep for one without an antecedent.

    *Shape:* as `CorefModel.scores`.
    """
    # (kept by any, 2), (kept by all together,): where the spans of each member are among them
    spans, indices = torch.cat([scores["spans"] for scores in members]).unique(dim=0, return_inverse=True)
    size = len(spans)
    # Of each member: (kept by any,), 0 for a span that it did not keep; (its pairs,) twice
    no_antecedent, pairs, log_probabilities = [], [], []
    rows_of_members = indices.split([len(scores["spans"]) for scores in members])
    for scores, rows in zip(members, rows_of_members, strict=True):
        distribution = scores["antecedent_scores"].log_softmax(dim=1)
        no_antecedent.append(distribution.new_zeros(size).index_copy(0, rows, distribution[:, 0]))
        is_pair = scores["antecedents"] >= 0
        antecedents = rows[scores["antecedents"].clamp(min=0)]
        # Span and antecedent as one number
        pairs.append((rows.unsqueeze(1) * size + antecedents)[is_pair])
        log_probabilities.append(distribution[:, 1:][is_pair])
    # (pairs of any,), (pairs of all together,)
    distinct, pair_index = torch.cat(pairs).unique(return_inverse=True)
    # (pairs of any,): the span, its antecedent, and the column of this antecedent among those of its span
    rows, antecedents = distinct // size, distinct % size
    pairs_of_row = rows.bincount(minlength=size)
    first_of_row = pairs_of_row.cumsum(0) - pairs_of_row
    columns = torch.arange(len(rows), device=rows.device) - first_of_row[rows]
    most = max(1, int(pairs_of_row.max()))
    # (pairs of any,)
    pair_sums = _logsumexp(torch.cat(log_probabilities), pair_index, len(distinct))
    # (kept by any, 1 + most), (kept by any, most)
    row_sums = pair_sums.new_full((size, 1 + most), -torch.inf)
    row_sums[:, 0] = torch.stack(no_antecedent).logsumexp(dim=0)
    row_sums[rows, 1 + columns] = pair_sums
    row_antecedents = indices.new_full((size, most), -1)
    row_antecedents[rows, columns] = antecedents
    return {
        "window": members[0]["window"],
        "spans": spans,
        "antecedents": row_antecedents,
        "antecedent_scores": row_sums - log(len(members)),
    }


def _logsumexp(values: torch.Tensor, index: torch.Tensor, size: int) -> torch.Tensor:
    """*Shape:* values and the group of each, `(values,)`, to the logarithm of each group's sum, `(size,)`."""
    top = values.new_full((size,), -torch.inf).scatter_reduce(0, index, values, "amax")
    return values.new_zeros(size).index_add(0, index, (values - top[index]).exp()).log() + top
