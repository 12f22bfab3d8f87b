"""Batches in which what belongs together stands together."""

from collections.abc import Iterable
from typing import Any

from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance
from allennlp.data.samplers import BatchSampler

from elmo_tasks.training.batch_sampler import ElmoBucketSampler
from elmo_tasks.values import Name


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
