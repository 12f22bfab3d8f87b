"""Accuracy, precision, recall and F1 of classes, and their confusion matrix."""

import json

import torch
from allennlp.training.metrics import Metric

from elmo_tasks.metrics.base import CountingMetric


@Metric.register("elmo_classification")
class ClassificationMetric(CountingMetric[torch.Tensor]):
    """
    Computes the numbers of scikit-learn's `precision_recall_fscore_support` and `confusion_matrix` with all
    `labels` and `zero_division=0`: a class that is never predicted has precision 0, a class that never occurs
    has recall 0, and both count in the macro averages. See `CountingMetric`.

    # Parameters

    labels : names of the classes, in the order of their ids.
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

    @property
    def confusion(self) -> torch.Tensor:
        """*Shape:* counts `(gold classes, predicted classes)`."""
        return self.total_counts()

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """
        Returns `accuracy`, `macro_precision`, `macro_recall` and `macro_f1`, all from 0 to 1. With `reset`,
        at the end of an epoch, also `precision-LABEL`, `recall-LABEL`, `f1-LABEL` for each class, and the
        number of instances of each cell of the confusion matrix, see `confusion_name`.
        """
        confusion = self.confusion
        # (classes,)
        correct, gold, predicted = confusion.diagonal(), confusion.sum(dim=1), confusion.sum(dim=0)
        by_class = {
            "precision": _ratio(correct, predicted),
            "recall": _ratio(correct, gold),
            "f1": _ratio(2 * correct, gold + predicted),
        }
        metrics = {"accuracy": _ratio(correct.sum(), confusion.sum()).item()}
        metrics |= {f"macro_{name}": values.mean().item() for name, values in by_class.items()}
        if not reset:
            return metrics
        self.reset()
        for index, label in enumerate(self.labels):
            metrics |= {f"{name}-{label}": values[index].item() for name, values in by_class.items()}
        for truth, row in zip(self.labels, confusion.tolist(), strict=True):
            for guess, count in zip(self.labels, row, strict=True):
                metrics[confusion_name(truth, guess)] = float(count)
        return metrics


def confusion_name(gold: str, predicted: str) -> str:
    """Returns `confusion-GOLD-PREDICTED`, unique among all cells: labels with a hyphen are quoted."""
    return f"confusion-{_quoted(gold)}-{_quoted(predicted)}"


def _quoted(label: str) -> str:
    return json.dumps(label, ensure_ascii=False) if "-" in label or label.startswith('"') else label


def _ratio(part: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """Divides in double precision; a division by 0 is 0."""
    return part.double() / whole.clamp(min=1)
