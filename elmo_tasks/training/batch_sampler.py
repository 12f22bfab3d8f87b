"""Batches of sentences of like length, the same number for each worker."""

import multiprocessing
import random
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Optional

import torch.distributed as dist
from allennlp.common.util import is_distributed
from allennlp.data import Instance
from allennlp.data.samplers import BatchSampler, BucketBatchSampler
from allennlp.nn.util import dist_reduce

from elmo_tasks.strict_params import StrictParams
from elmo_tasks.values import Name, NonNegativeFloat, PositiveInt


@BatchSampler.register("elmo_bucket")
class ElmoBucketSampler(StrictParams, BucketBatchSampler):
    """
    AllenNLP's `bucket` sampler, for distributed runs too.

    Workers whose shards differ by one sentence can differ by one batch; AllenNLP then ends the epoch of all
    workers early and drops the rest, in evaluation as well. Here a worker that has fewer batches halves its
    largest ones until all have the same number: each sentence is used once.

    Without `shuffle` it draws no random numbers. The stock sampler does, and since a run that resumes does
    not repeat past evaluations, the order of its training data is then another.
    """

    inherited_values: ClassVar[dict[str, Any]] = {
        "batch_size": PositiveInt,
        "sorting_keys": Optional[list[Name]],
        "padding_noise": NonNegativeFloat,
    }

    def get_batch_indices(self, instances: Sequence[Instance]) -> Iterable[list[int]]:
        before = random.getstate()
        batches = [list(batch) for batch in super().get_batch_indices(instances)]
        if not self.shuffle:
            random.setstate(before)
        # Subprocesses of a data loader are not members of the process group.
        if is_distributed() and not multiprocessing.current_process().daemon:
            wanted = int(dist_reduce(len(batches), dist.ReduceOp.MAX))
            batches = _halve_to(batches, min(wanted, len(instances)))
        return batches


def _halve_to(batches: list[list[int]], wanted: int) -> list[list[int]]:
    """At least `wanted` batches, by cutting the largest ones in two where they are."""
    while len(batches) < wanted:
        position = max(range(len(batches)), key=lambda i: len(batches[i]))
        batch = batches[position]
        middle = len(batch) // 2
        batches[position : position + 1] = [batch[:middle], batch[middle:]]
    return batches
