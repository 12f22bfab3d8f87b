"""Perplexity, as bilm-tf counts it, and the confusion matrix of the most frequent words."""

import math

import torch

from elmo_tasks.modules.metrics import ClassificationMetric, CountingMetric

OTHER_WORDS = "other words"
"""A class of the confusion matrix; no word contains a blank."""
DIRECTIONS = ("forward", "backward")
MAX_LOSS = 700
"""A loss in nats; `math.exp` overflows from about 709 on."""


class Perplexity(CountingMetric[torch.Tensor]):
    """
    The perplexity and the accuracy (the share of targets with the highest probability of all words) of each
    direction and of both together, and the share of targets that are words outside the vocabulary.

    Both are exact over all targets, whatever the batches and the workers; the end of a sentence (its begin,
    in the backward direction) is a target too. The joint perplexity is the exponential of the mean loss, as
    in bilm-tf's `test`.
    """

    def no_counts(self) -> torch.Tensor:
        """*Shape:* `(4, 2)`: losses, correct, all and unknown targets, forward and backward."""
        return torch.zeros(4, 2, dtype=torch.float64)

    def __call__(self, log_probabilities: torch.Tensor, correct: torch.Tensor, unknown: torch.Tensor) -> None:
        """*Shape:* each `(2, targets)`, forward and backward."""
        losses = -log_probabilities.detach().double().sum(dim=1)
        targets = torch.full_like(losses, log_probabilities.size(1))
        self._counts += torch.stack([losses, correct.sum(dim=1), targets, unknown.sum(dim=1)]).cpu()

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        losses, correct, (targets, _), unknown = self.total_counts(reset=reset).tolist()
        if not targets:
            return {}
        both = 2 * targets
        metrics = {"perplexity": perplexity(sum(losses) / both), "accuracy": sum(correct) / both}
        metrics["unknown_words"] = sum(unknown) / both
        for name, loss, num_correct in zip(DIRECTIONS, losses, correct, strict=True):
            metrics[f"perplexity_{name}"] = perplexity(loss / targets)
            metrics[f"accuracy_{name}"] = num_correct / targets
        return metrics


class FrequentWords(ClassificationMetric):
    """
    The confusion matrix of the `num_words` most frequent words; all other words are one more class. There is
    no accuracy: one rare word in place of another would count as correct.
    """

    def __init__(self, words: list[str], num_words: int) -> None:
        super().__init__([*words[:num_words], OTHER_WORDS])

    def __call__(self, predictions: torch.Tensor, gold: torch.Tensor) -> None:
        """*Shape:* classes of words, both `(targets,)`."""
        other = len(self.labels) - 1
        super().__call__(predictions.clamp(max=other), gold.clamp(max=other))

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        metrics = super().get_metric(reset)
        del metrics["accuracy"]
        return metrics


def perplexity(loss: float) -> float:
    return math.inf if loss >= MAX_LOSS else math.exp(loss)
