"""Perplexity, as bilm-tf counts it, and which words are taken for which."""

import math

import torch

from elmo_tasks.metrics.base import CountingMetric
from elmo_tasks.metrics.classification import ClassificationMetric

OTHER_WORDS = "other words"
"""A class of the confusion matrix; no word has a blank."""
DIRECTIONS = ("forward", "backward")
MAX_LOSS = 700
"""Nats; `math.exp` overflows from about 709 on."""


class Perplexity(CountingMetric[torch.Tensor]):
    """
    The perplexity and the accuracy of each direction and of both. Accuracy is the share of targets that are
    the most probable word of all.

    Exact over all targets, the end of a sentence (in the backward direction its begin) among them, whatever
    the batches and the workers. That of both is of the mean of both losses, as in bilm-tf's `test`.
    """

    def no_counts(self) -> torch.Tensor:
        """*Shape:* `(3, 2)`: losses, right targets and all targets, forward and backward."""
        return torch.zeros(3, 2, dtype=torch.float64)

    def __call__(self, log_probabilities: torch.Tensor, correct: torch.Tensor) -> None:
        """*Shape:* each `(2, targets)`, forward and backward."""
        losses = -log_probabilities.detach().double().sum(dim=1)
        targets = torch.full_like(losses, log_probabilities.size(1))
        self._counts += torch.stack([losses, correct.sum(dim=1).double(), targets]).cpu()

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """The metrics; none where nothing was counted."""
        losses, right, (targets, _) = self.total_counts(reset=reset).tolist()
        if not targets:
            return {}
        both = 2 * targets
        metrics = {"perplexity": perplexity(sum(losses) / both), "accuracy": sum(right) / both}
        for name, loss, number in zip(DIRECTIONS, losses, right, strict=True):
            metrics[f"perplexity_{name}"] = perplexity(loss / targets)
            metrics[f"accuracy_{name}"] = number / targets
        return metrics


class FrequentWords(ClassificationMetric):
    """
    How well the most frequent words are told apart; all other words are one class more. An accuracy is not
    among the metrics: any other word in place of any other would count as right.

    # Parameters

    words : of the classes, the most frequent first.
    number : so many of them have a class of their own.
    """

    def __init__(self, words: list[str], number: int) -> None:
        super().__init__([*words[:number], OTHER_WORDS])

    def __call__(self, predictions: torch.Tensor, gold: torch.Tensor) -> None:
        """*Shape:* classes of words, both `(targets,)`."""
        other = len(self.labels) - 1
        super().__call__(predictions.clamp(max=other), gold.clamp(max=other))

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """See `ClassificationMetric`."""
        metrics = super().get_metric(reset)
        del metrics["accuracy"]
        return metrics


def perplexity(loss: float) -> float:
    """The perplexity of a mean loss in nats; infinite from `MAX_LOSS` on."""
    return math.inf if loss >= MAX_LOSS else math.exp(loss)
