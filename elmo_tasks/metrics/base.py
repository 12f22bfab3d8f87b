"""The base class of metrics that add up counts over all workers, and the counts of labels."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Self, TypeVar

import torch.distributed as dist
from allennlp.common.util import is_distributed
from allennlp.training.metrics import Metric

Counts = TypeVar("Counts")


class CountingMetric(Metric, Generic[Counts]):
    """
    Base class of a metric that adds up counts, and computes its values from them.

    With several workers, its values cover the instances of all. So all workers must ask for them together, as
    AllenNLP's trainer does after each batch. Each worker goes on counting its own instances.
    """

    supports_distributed = True

    def __init__(self) -> None:
        self.reset()

    @abstractmethod
    def no_counts(self) -> Counts:
        """Returns the counts of no instances. Counts are added with `+`."""

    def total_counts(self, *, reset: bool = False) -> Counts:
        """Returns the counts of all workers together. With `reset`, this worker forgets its own."""
        total: Any = self.no_counts()
        for counts in gather_from_workers(self._counts):
            total = total + counts
        if reset:
            self.reset()
        return total

    def reset(self) -> None:
        self._counts = self.no_counts()


def gather_from_workers(counts: Counts) -> list[Counts]:
    """Returns the counts of each worker. All workers must call it together; one process returns its own."""
    if not is_distributed():
        return [counts]
    counts_of_workers = [counts] * dist.get_world_size()
    dist.all_gather_object(counts_of_workers, counts)
    return counts_of_workers


@dataclass(kw_only=True)
class LabelCounts:
    """Numbers of gold, predicted and correct items by label."""

    gold: Counter[str] = field(default_factory=Counter)
    predicted: Counter[str] = field(default_factory=Counter)
    correct: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Self) -> Self:
        sums = {each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)}
        return type(self)(**sums)

    def labels(self) -> list[str]:
        """Returns the labels of the gold and the predicted items, sorted."""
        return sorted(self.gold.keys() | self.predicted.keys())

    def totals(self, labels: Iterable[str]) -> tuple[int, int, int]:
        """Returns the numbers of gold, predicted and correct items with one of `labels`."""
        listed = list(labels)
        gold, predicted, correct = (
            sum(counter[label] for label in listed) for counter in (self.gold, self.predicted, self.correct)
        )
        return gold, predicted, correct


def check_tags(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]], *, kind: str) -> None:
    """
    Checks that predicted and gold tags go together.

    # Parameters

    kind : the unit with a sequence of tags, such as `sentence`.

    # Raises
    `ValueError`: the numbers of sequences differ, or the lengths of two sequences.
    """
    if len(predicted) != len(gold):
        raise ValueError(f"found {len(predicted)} predicted {kind}s, expected {len(gold)}")
    for number, (guesses, truths) in enumerate(zip(predicted, gold, strict=True)):
        if len(guesses) != len(truths):
            raise ValueError(f"{kind} {number}: found {len(guesses)} tags, expected {len(truths)}")
