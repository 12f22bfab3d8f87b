"""
Batches of sentences of like length, the same number for each worker.

Batches in which what belongs together stands together.
"""

import logging
import multiprocessing
from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from typing import Any, ClassVar, Optional

import torch.distributed as dist
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.data import Instance
from allennlp.data.samplers import BatchSampler, BucketBatchSampler
from allennlp.nn.util import dist_reduce

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Name, NonNegativeFloat, PositiveInt

# ==== training.batch_sampler
logger = logging.getLogger(__name__)


@BatchSampler.register("elmo_bucket")
class ElmoBucketSampler(StrictParams, BucketBatchSampler):
    """
    AllenNLP's `bucket` sampler, for distributed runs too.

    Workers whose shards differ by one sentence can differ by one batch; AllenNLP then ends the epoch of all
    workers early and drops the rest, in evaluation as well. Here a worker that has fewer batches halves its
    largest ones until all have the same number: each sentence is used once. A learning rate schedule counts
    the batches of the worker that has most, so that all workers have one rate.

    Where a worker has fewer sentences than another one has batches, as with batches of one document each, it
    reads some again in training; in evaluation, which is without `shuffle`, the last ones of the other
    workers are left out. The log says so.

    # Raises
    `ConfigurationError`, when a run of several workers begins: one has nothing to read.
    """

    inherited_values: ClassVar[dict[str, Any]] = {
        "batch_size": PositiveInt,
        "sorting_keys": Optional[list[Name]],
        "padding_noise": NonNegativeFloat,
    }

    # Whether a sampler of this process has given batches. Before that, all workers ask for the number of
    # batches, for the schedule; later a progress bar asks, in the first worker alone.
    _running: ClassVar[bool] = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._most: dict[int, int] = {}

    def get_num_batches(self, instances: Sequence[Instance]) -> int:
        """See `BatchSampler`."""
        number = int(super().get_num_batches(instances))
        if not _in_a_group():
            return number
        if not instances:
            raise ConfigurationError(
                f"process {dist.get_rank() + 1} of {dist.get_world_size()} found no instance, expected one "
                "for each at least: take fewer processes, or more data"
            )
        if not self._running and len(instances) not in self._most:
            self._most[len(instances)] = int(dist_reduce(number, dist.ReduceOp.MAX))
        return self._most.get(len(instances), number)

    def get_batch_indices(self, instances: Sequence[Instance]) -> Iterable[list[int]]:
        ElmoBucketSampler._running = True
        batches = [list(batch) for batch in super().get_batch_indices(instances)]
        if _in_a_group():
            wanted = int(dist_reduce(len(batches), dist.ReduceOp.MAX))
            batches = _halve_to(batches, min(wanted, len(instances)))
            if missing := wanted - len(batches):
                batches += self._again(batches, missing)
        return batches

    def _again(self, batches: list[list[int]], number: int) -> list[list[int]]:
        if self.shuffle:
            logger.warning("Read again in this epoch, since other processes have more: %d batches", number)
            return list(islice(cycle(batches), number))
        logger.warning(
            "Left out of this evaluation, since another process has fewer: the last %d batches of each that "
            "has more; one process leaves out none",
            number,
        )
        return []


def _in_a_group() -> bool:
    """Subprocesses of a data loader are not members of the process group."""
    return bool(is_distributed()) and not multiprocessing.current_process().daemon


def _halve_to(batches: list[list[int]], wanted: int) -> list[list[int]]:
    """At least `wanted` batches, by cutting the largest ones in two where they are."""
    while len(batches) < wanted:
        position = max(range(len(batches)), key=lambda i: len(batches[i]))
        batch = batches[position]
        middle = len(batch) // 2
        batches[position : position + 1] = [batch[:middle], batch[middle:]]
    return batches


# ==== training.grouped_sampler
@BatchSampler.register("elmo_grouped_bucket")
class GroupedBucketSampler(ElmoBucketSampler):
    """
    `elmo_bucket`, with the instances of a group one after the other, as the questions of a passage, so that a
    model computes once what they share. The border of a batch may cut a group in two.

    # Parameters

    group : name of a `LabelField` that is equal within a group.
    The others : see `ElmoBucketSampler`.

    # Raises
    `ConfigurationError`, when batches are made: the instances have no such field.
    """

    def __init__(self, *, group: Name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.group = group

    def _argsort_by_padding(self, instances: Iterable[Instance]) -> tuple[list[int], list[list[int]]]:
        """AllenNLP's hook: where a group's first instance stands, the others follow."""
        instances = list(instances)
        groups: dict[int | str, list[tuple[int, list[int]]]] = {}
        for index, lengths in zip(*super()._argsort_by_padding(instances), strict=True):
            if self.group not in instances[index].fields:
                known = ", ".join(instances[index].fields)
                raise ConfigurationError(f"group: found {self.group!r}, expected one of the fields {known}")
            groups.setdefault(instances[index][self.group].label, []).append((index, lengths))
        members = [member for group in groups.values() for member in group]
        return [index for index, _ in members], [lengths for _, lengths in members]
