"""What the metrics share that count first and divide in the end."""

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

    With several workers, its values are those of all instances together, so that every worker has to ask for
    them (AllenNLP's trainer does, after each batch); each worker goes on counting its own instances.
    """

    supports_distributed = True

    def __init__(self) -> None:
        self.reset()

    @abstractmethod
    def no_counts(self) -> Counts:
        """The counts of no instance. Counts are added with `+`."""

    def total_counts(self, *, reset: bool = False) -> Counts:
        """The counts of all workers together. With `reset`, this worker's start anew."""
        total: Any = self.no_counts()
        for counts in gather_from_workers(self._counts):
            total = total + counts
        if reset:
            self.reset()
        return total

    def reset(self) -> None:
        """Forgets all instances."""
        self._counts = self.no_counts()


def gather_from_workers(counts: Counts) -> list[Counts]:
    """The counts of each worker, all of which have to call this; in a run of one process just these."""
    if not is_distributed():
        return [counts]
    of_workers = [counts] * dist.get_world_size()
    dist.all_gather_object(of_workers, counts)
    return of_workers


@dataclass(kw_only=True)
class LabelCounts:
    """How many gold, predicted and correct things have each label."""

    gold: Counter[str] = field(default_factory=Counter)
    predicted: Counter[str] = field(default_factory=Counter)
    correct: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Self) -> Self:
        names = [each.name for each in fields(self)]
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def labels(self) -> list[str]:
        """The labels of the gold and the predicted things, sorted."""
        return sorted(self.gold.keys() | self.predicted.keys())

    def totals(self, labels: Iterable[str]) -> tuple[int, int, int]:
        """How many gold, predicted and correct things have one of `labels`."""
        listed = list(labels)
        gold, predicted, correct = (
            sum(counter[label] for label in listed) for counter in (self.gold, self.predicted, self.correct)
        )
        return gold, predicted, correct


def check_tags(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]], *, kind: str) -> None:
    """
    # Parameters

    kind : what each sequence of tags belongs to, such as `sentence`.

    # Raises
    `ValueError`: the numbers of sequences differ, or those of the tags of one.
    """
    if len(predicted) != len(gold):
        raise ValueError(f"found {len(predicted)} predicted {kind}s, expected {len(gold)}")
    for number, (guesses, truths) in enumerate(zip(predicted, gold, strict=True)):
        if len(guesses) != len(truths):
            raise ValueError(f"{kind} {number}: found {len(guesses)} tags, expected {len(truths)}")
