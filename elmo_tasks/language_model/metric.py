"""Perplexity, as bilm-tf counts it, and which words are taken for which."""

import math

import torch
from allennlp.nn.util import dist_reduce_sum
from allennlp.training.metrics import Metric

from elmo_tasks.metrics.classification import ClassificationMetric

OTHER_WORDS = "other words"
"""A class of the confusion matrix; no word has a blank."""
DIRECTIONS = ("forward", "backward")


class Perplexity(Metric):
    """
    The perplexity of each direction and of both, and the share of targets that are the most probable word.

    Exact over all targets, the end of a sentence (in the backward direction its begin) among them, whatever
    the batches and the workers. That of both is of the mean of both losses, as in bilm-tf's `test`.
    """

    def __init__(self) -> None:
        self.reset()

    def __call__(self, log_probabilities: torch.Tensor, correct: torch.Tensor) -> None:
        """*Shape:* each `(2, targets)`, forward and backward."""
        self._count += log_probabilities.size(1)
        self._losses -= log_probabilities.detach().double().sum(dim=1).cpu()
        self._correct += correct.sum(dim=1).cpu()

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """Nothing where nothing was counted."""
        count = dist_reduce_sum(self._count)
        losses = dist_reduce_sum(self._losses).tolist()
        correct = dist_reduce_sum(self._correct).tolist()
        if reset:
            self.reset()
        if not count:
            return {}
        return {
            "perplexity": _exp(sum(losses) / (2 * count)),
            **{
                f"perplexity_{name}": _exp(loss / count)
                for name, loss in zip(DIRECTIONS, losses, strict=True)
            },
            **{f"accuracy_{name}": number / count for name, number in zip(DIRECTIONS, correct, strict=True)},
        }

    def reset(self) -> None:
        self._count = 0
        self._losses = torch.zeros(2, dtype=torch.float64)
        self._correct = torch.zeros(2, dtype=torch.long)


class FrequentWords(ClassificationMetric):
    """
    How well the most frequent words are told apart; all other words are one class more.

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


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf
