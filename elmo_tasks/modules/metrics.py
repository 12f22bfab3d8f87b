"""The base class of metrics that add up counts over all workers, and metrics of two or more tasks."""

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import torch
import torch.distributed as dist
from allennlp.common.util import is_distributed
from allennlp.training.metrics import Metric

Counts = TypeVar("Counts")


class CountingMetric(Metric, Generic[Counts]):
    """
    Base class of a metric that adds up counts, and computes its values from them.

    With several workers, its values cover the instances of all. So all workers must ask for them together, as
    AllenNLP's trainer does after each batch. Each worker keeps counting its own instances.
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
    """Counts of gold, predicted and correct items by label."""

    gold: Counter[str] = field(default_factory=Counter)
    predicted: Counter[str] = field(default_factory=Counter)
    correct: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Self) -> Self:
        sums = {name: counter + getattr(other, name) for name, counter in vars(self).items()}
        return type(self)(**sums)

    def labels(self) -> list[str]:
        return sorted(self.gold.keys() | self.predicted.keys())

    def scores_by_label(self) -> dict[str, float]:
        return {
            f"{name}-{label}": value
            for label in filter(None, self.labels())
            for name, value in self.scores([label]).items()
        }

    def scores(self, labels: Sequence[str]) -> dict[str, float]:
        """Returns precision, recall and F1 of items with one of `labels`; 0 for a division by 0."""
        gold, predicted, correct = (
            sum(counter[label] for label in labels) for counter in (self.gold, self.predicted, self.correct)
        )
        return {
            "precision": correct / predicted if predicted else 0.0,
            "recall": correct / gold if gold else 0.0,
            "f1": 2 * correct / (gold + predicted) if correct else 0.0,
        }


@Metric.register("elmo_classification")
class ClassificationMetric(CountingMetric[torch.Tensor]):
    """
    Computes the numbers of scikit-learn's `precision_recall_fscore_support` and `confusion_matrix` with
    `zero_division=0`. The macro averages are over the classes that occur, as gold or as a prediction: one
    that is never predicted has precision 0, and one that is only predicted has recall 0. `labels` are the
    names of all classes, in the order of their ids. See `CountingMetric`.
    """

    def __init__(self, labels: list[str]) -> None:
        self.labels = labels
        super().__init__()

    def no_counts(self) -> torch.Tensor:
        """*Shape:* `(gold classes, predicted classes)`."""
        return torch.zeros(len(self.labels), len(self.labels), dtype=torch.long)

    def __call__(self, predictions: torch.Tensor, gold: torch.Tensor) -> None:
        """*Shape:* class ids, both `(batch,)`."""
        # (batch,)
        pairs = (gold * len(self.labels) + predictions).cpu()
        self._counts += torch.bincount(pairs, minlength=self._counts.numel()).view_as(self._counts)

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """
        Returns `accuracy`, `macro_precision`, `macro_recall` and `macro_f1`, all from 0 to 1. With `reset`,
        at the end of an epoch, also `precision-LABEL`, `recall-LABEL`, `f1-LABEL` for each class, and the
        number of instances of each cell of the confusion matrix, see `confusion_name`.
        """
        # (gold classes, predicted classes)
        confusion = self.total_counts(reset=reset)
        # (classes,)
        correct, gold, predicted = confusion.diagonal(), confusion.sum(dim=1), confusion.sum(dim=0)
        by_class = {
            "precision": _ratio(correct, predicted),
            "recall": _ratio(correct, gold),
            "f1": _ratio(2 * correct, gold + predicted),
        }
        metrics = {"accuracy": _ratio(correct.sum(), confusion.sum()).item()}
        metrics |= _macro_averages(by_class, gold + predicted > 0)
        if not reset:
            return metrics
        for index, label in enumerate(self.labels):
            metrics |= {f"{name}-{label}": values[index].item() for name, values in by_class.items()}
        for truth, row in zip(self.labels, confusion.tolist(), strict=True):
            for guess, count in zip(self.labels, row, strict=True):
                metrics[confusion_name(truth, guess)] = float(count)
        return metrics


@Metric.register("elmo_labels")
class LabelsMetric(CountingMetric[torch.Tensor]):
    """
    The numbers of scikit-learn's `precision_recall_fscore_support` and `accuracy_score` for texts with any
    number of labels, with `zero_division=0`. The macro averages are over the labels that occur, as gold or as
    a prediction. `labels` are the names of all, in the order of their ids. See `CountingMetric`.
    """

    def __init__(self, labels: list[str]) -> None:
        self.labels = labels
        super().__init__()

    def no_counts(self) -> torch.Tensor:
        """*Shape:* `(labels + 1, 3)`: correct, gold, predicted; in the last row texts: right ones, all, 0."""
        return torch.zeros(len(self.labels) + 1, 3, dtype=torch.long)

    def __call__(self, predictions: torch.Tensor, gold: torch.Tensor) -> None:
        """*Shape:* 0 and 1, both `(batch, labels)`."""
        predicted, true = predictions.bool().cpu(), gold.bool().cpu()
        for column, values in enumerate((predicted & true, true, predicted)):
            self._counts[:-1, column] += values.sum(dim=0)
        self._counts[-1, 0] += (predicted == true).all(dim=1).sum()
        self._counts[-1, 1] += len(true)

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """
        Returns `accuracy`, the share of the texts whose labels are all right, `micro_f1`, over all labels of
        all texts, and `macro_precision`, `macro_recall` and `macro_f1`; with `reset` also `precision-LABEL`,
        `recall-LABEL` and `f1-LABEL`.
        """
        *counts, (right, texts, _) = self.total_counts(reset=reset)
        correct, gold, predicted = torch.stack(counts).unbind(dim=1)
        by_class = {
            "precision": _ratio(correct, predicted),
            "recall": _ratio(correct, gold),
            "f1": _ratio(2 * correct, gold + predicted),
        }
        metrics = {
            "accuracy": _ratio(right, texts).item(),
            "micro_f1": _ratio(2 * correct.sum(), (gold + predicted).sum()).item(),
        }
        metrics |= _macro_averages(by_class, gold + predicted > 0)
        for index, label in enumerate(self.labels if reset else ()):
            metrics |= {f"{name}-{label}": values[index].item() for name, values in by_class.items()}
        return metrics


def _macro_averages(by_class: dict[str, torch.Tensor], occurs: torch.Tensor) -> dict[str, float]:
    """Returns the means over the classes that occur. *Shape:* `(classes,)` each."""
    return {
        f"macro_{name}": values[occurs].mean().item() if occurs.any() else 0.0
        for name, values in by_class.items()
    }


def confusion_name(gold: str, predicted: str) -> str:
    """Returns `confusion-GOLD-PREDICTED`, unique among all cells: labels with a hyphen are quoted."""
    return f"confusion-{_quoted(gold)}-{_quoted(predicted)}"


def _quoted(label: str) -> str:
    return json.dumps(label, ensure_ascii=False) if "-" in label or label.startswith('"') else label


def _ratio(part: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """Divides in double precision; a division by 0 is 0."""
    return part.double() / whole.clamp(min=1)
