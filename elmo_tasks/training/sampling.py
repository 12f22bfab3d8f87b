"""The instances of a training: a random part of the data, and batches of similar length."""

import logging
import multiprocessing
import random
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import cycle, islice
from typing import Any, ClassVar, Optional, cast

import torch.distributed as dist
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.data import DatasetReader, Instance
from allennlp.data.dataset_readers.dataset_reader import DatasetReaderInput, DistributedInfo, WorkerInfo
from allennlp.data.fields import LabelField, MultiLabelField
from allennlp.data.samplers import BatchSampler, BucketBatchSampler
from allennlp.nn.util import dist_reduce

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import Name, NonNegativeFloat, PositiveInt, Share
from elmo_tasks.data.reader import ShardedReader, TaskReader
from elmo_tasks.data.repeated_texts import text_of

logger = logging.getLogger(__name__)


@BatchSampler.register("elmo_bucket")
class ElmoBucketSampler(StrictParams, BucketBatchSampler):
    """
    AllenNLP's `bucket` sampler, for distributed runs too.

    Workers whose shards differ by one sentence can differ by one batch. AllenNLP then ends the epoch of all
    workers early, also in evaluation. Here a worker with fewer batches halves its largest ones until all have
    the same number, so that each sentence is used once. A learning rate schedule counts the batches of the
    worker with the most.

    A worker that has fewer sentences than another one has batches reads some again in training. In
    evaluation, which has no `shuffle`, the last batches of the other workers are left out, with a warning. A
    worker without any batch is a `ConfigurationError`.
    """

    inherited_values: ClassVar[dict[str, Any]] = {
        "batch_size": PositiveInt,
        "sorting_keys": Optional[list[Name]],
        "padding_noise": NonNegativeFloat,
    }

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self._max_batches: dict[int, int] = {}
        """The largest number of batches of any worker, by the number of this worker's instances."""
        self._asked: set[int] = set()
        """
        The numbers of instances for which this worker knows already what the others ask for when they make
        their batches: only the first worker has a progress bar.
        """

    def get_num_batches(self, instances: Sequence[Instance]) -> int:
        num_batches = int(super().get_num_batches(instances))
        if not _in_a_group():
            return num_batches
        self._check_any(num_batches)
        if len(instances) not in self._max_batches:
            self._max_batches[len(instances)] = int(dist_reduce(num_batches, dist.ReduceOp.MAX))
            self._asked.add(len(instances))
        return self._max_batches[len(instances)]

    def get_batch_indices(self, instances: Sequence[Instance]) -> Iterable[list[int]]:
        batches = [list(batch) for batch in super().get_batch_indices(instances)]
        if _in_a_group():
            self._check_any(len(batches))
            if len(instances) not in self._asked:
                self._max_batches[len(instances)] = int(dist_reduce(len(batches), dist.ReduceOp.MAX))
            self._asked.discard(len(instances))
            wanted = self._max_batches[len(instances)]
            batches = _halve_to(batches, min(wanted, sum(map(len, batches))))
            if len(batches) < wanted:
                batches += self._again(batches, wanted)
        return batches

    def _check_any(self, batches: int) -> None:
        if not batches:
            ways = "a smaller batch_size, or no drop_last" if self.drop_last else "or more data"
            raise ConfigurationError(f"{_this_process()} has no batch; use fewer processes, {ways}")

    def _again(self, batches: list[list[int]], wanted: int) -> list[list[int]]:
        missing = wanted - len(batches)
        if self.shuffle:
            logger.warning(
                "%d batches are read again in this epoch, since other processes have more", missing
            )
            return list(islice(cycle(batches), missing))
        logger.warning(
            "This evaluation ends with the process that has the fewest batches, and leaves out the last ones "
            "of the others: %s has %d, the process with the most has %d",
            _this_process(),
            len(batches),
            wanted,
        )
        return []


def _this_process() -> str:
    return f"process {dist.get_rank() + 1} of {dist.get_world_size()}"


def _in_a_group() -> bool:
    """Subprocesses of a data loader are not members of the process group."""
    return bool(is_distributed()) and not multiprocessing.current_process().daemon


def _halve_to(batches: list[list[int]], wanted: int) -> list[list[int]]:
    """Cuts the largest batches in two, in place, until there are `wanted` batches."""
    while len(batches) < wanted:
        position = max(range(len(batches)), key=lambda i: len(batches[i]))
        batch = batches[position]
        middle = len(batch) // 2
        batches[position : position + 1] = [batch[:middle], batch[middle:]]
    return batches


@BatchSampler.register("elmo_grouped_bucket")
class GroupedBucketSampler(ElmoBucketSampler):
    """
    `elmo_bucket` with the instances of a group next to each other, such as the questions of a passage, so
    that a model computes only once what they share. The end of a batch may cut a group in two.

    # Parameters

    group : name of a value in the metadata, or of a `LabelField`, that is equal within a group.
    The others : see `ElmoBucketSampler`.
    """

    def __init__(self, *, group: Name, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.group = group

    def _argsort_by_padding(self, instances: Iterable[Instance]) -> tuple[list[int], list[list[int]]]:
        """Overrides AllenNLP's order: the other instances of a group follow its first one."""
        instances = list(instances)
        groups: dict[int | str, list[tuple[int, list[int]]]] = {}
        for index, lengths in zip(*super()._argsort_by_padding(instances), strict=True):
            groups.setdefault(self._group_of(instances[index]), []).append((index, lengths))
        members = [member for group in groups.values() for member in group]
        return [index for index, _ in members], [lengths for _, lengths in members]

    def _group_of(self, instance: Instance) -> int | str:
        if self.group in instance.fields:
            return cast(LabelField, instance[self.group]).label
        metadata = getattr(instance.fields.get("metadata"), "metadata", None)
        if not hasattr(metadata, self.group):
            raise ConfigurationError(f"group: {self.group!r} is neither a field nor in the metadata")
        return cast(int, getattr(metadata, self.group))


@DatasetReader.register("elmo_sample")
class SampleReader(ShardedReader):
    """
    A random part of the instances of another reader, in their order, for training on less data.

    The same seed always draws the same instances, and a smaller fraction is part of a larger one. Each of
    several workers draws from its own share. Archives read with the other reader, so that they evaluate
    and predict all that a file has.

    # Parameters

    reader : reads the whole data.
    fraction : the part to draw, above 0, up to 1; at least one instance.
    seed : seed of the draw.
    stratified : draw this part of the instances of each `label`, see `drawn_indices`, and all copies of a
        text, or none.
    rest : read the instances that are not drawn, in place of those that are.
    max_instances : the number of drawn instances to read, the first ones.
    """

    def __init__(
        self,
        *,
        reader: DatasetReader,
        fraction: Share,
        seed: int,
        stratified: bool = False,
        rest: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.wrapped_reader = reader
        self.fraction = fraction
        self.seed = seed
        self.stratified = stratified
        self.rest = rest

    def _read(self, file_path: DatasetReaderInput) -> Iterator[Instance]:
        instances = list(self.wrapped_reader.read(file_path))
        indices = (
            drawn_texts(
                list(map(text_of, instances)), list(map(_stratum, instances)), self.fraction, self.seed
            )
            if self.stratified
            else drawn_indices([None] * len(instances), self.fraction, self.seed)
        )
        drawn = [each for index, each in enumerate(instances) if (index in indices) != self.rest]
        if isinstance(self.wrapped_reader, TaskReader):
            self.wrapped_reader.sampled(drawn)
        yield from drawn

    def text_to_instance(self, *inputs: object, **named_inputs: object) -> Instance:
        return self.wrapped_reader.text_to_instance(*inputs, **named_inputs)

    def apply_token_indexers(self, instance: Instance) -> None:
        self.wrapped_reader.apply_token_indexers(instance)

    def _set_worker_info(self, info: WorkerInfo | None) -> None:
        super()._set_worker_info(info)
        self.wrapped_reader._set_worker_info(info)

    def _set_distributed_info(self, info: DistributedInfo | None) -> None:
        super()._set_distributed_info(info)
        self.wrapped_reader._set_distributed_info(info)


def unwrapped_block(block: dict[str, Any]) -> dict[str, Any]:
    """Returns the config block of the reader that makes the instances, without `elmo_sample`."""
    return unwrapped_block(block["reader"]) if block.get("type") == "elmo_sample" else block


def _stratum(instance: Instance) -> Hashable:
    """Returns the class of an instance, or its several labels together."""
    field: Any = instance["label"]
    return tuple(sorted(field.labels)) if isinstance(field, MultiLabelField) else field.label


def drawn_indices(strata: Sequence[Hashable], fraction: float, seed: int) -> set[int]:
    """
    Returns the indices of the instances that are drawn, of each stratum the same part. Of two instances or
    more of one of several strata, at least one is drawn and, if the fraction is below 1, one is not; a single
    one is drawn.
    """
    order = list(range(len(strata)))
    random.Random(seed).shuffle(order)
    if len(set(strata)) < 2:
        return set(order[: sample_size(fraction, len(order))])
    by_stratum: dict[Hashable, list[int]] = {}
    for index in order:
        by_stratum.setdefault(strata[index], []).append(index)
    drawn: set[int] = set()
    for indices in by_stratum.values():
        most = len(indices) - (fraction < 1 < len(indices))
        drawn.update(indices[: min(max(1, round(fraction * len(indices))), most)])
    return drawn


def drawn_texts(
    texts: Sequence[Hashable], strata: Sequence[Hashable], fraction: float, seed: int
) -> set[int]:
    """Returns the indices of the texts that are drawn, with all their copies, see `drawn_indices`."""
    first: dict[Hashable, int] = {}
    for index, text in enumerate(texts):
        first.setdefault(text, index)
    different = list(first)
    drawn = drawn_indices([strata[first[text]] for text in different], fraction, seed)
    chosen = {different[index] for index in drawn}
    return {index for index, text in enumerate(texts) if text in chosen}


def sample_size(fraction: float, total: int) -> int:
    size = round(fraction * total)
    if size == 0:
        raise ConfigurationError(f"fraction {fraction:g} of {total} instances is less than one")
    return size
