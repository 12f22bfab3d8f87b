"""Exact match and F1, as SQuAD's official scripts (https://rajpurkar.github.io/SQuAD-explorer/) compute."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
from allennlp.training.metrics import Metric

from elmo_tasks.modules.metrics import CountingMetric

ANSWER_KINDS = ("HasAns", "NoAns")
"""The names of version 2.0 for questions with an answer, and for questions without one."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(answer: str) -> str:
    """Lower-cases a text, removes ASCII punctuation and articles, and makes blanks single."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(predicted: str, gold: str) -> int:
    return int(normalize(predicted) == normalize(gold))


def f1(predicted: str, gold: str, *, version: str) -> float:
    """Compares the words of the normalised texts; with 2.0, two texts without words have F1 1."""
    predicted_words, gold_words = normalize(predicted).split(), normalize(gold).split()
    if version == "2.0" and not (predicted_words and gold_words):
        return float(predicted_words == gold_words)
    correct = (Counter(predicted_words) & Counter(gold_words)).total()
    if not correct:
        return 0.0
    precision, recall = correct / len(predicted_words), correct / len(gold_words)
    return 2 * precision * recall / (precision + recall)


@Metric.register("elmo_squad")
class SquadMetric(CountingMetric[np.ndarray]):
    """
    The means of the best exact match and F1 over the gold answers of each question. See `CountingMetric`. In
    version 2.0 a question may have no answer, and the empty string predicts none.
    """

    def __init__(self, version: Literal["1.1", "2.0"] = "1.1") -> None:
        self.version = version
        super().__init__()

    def no_counts(self) -> np.ndarray:
        """*Shape:* `(all questions and ANSWER_KINDS, count, sum of exact match and sum of F1)`: `(3, 3)`."""
        return np.zeros((1 + len(ANSWER_KINDS), 3))

    def __call__(self, predicted: str, gold: Sequence[str]) -> None:
        """Adds a question. In version 1.1 it must have a gold answer."""
        kind = 1 if gold else 2
        if self.version == "2.0":
            gold = [answer for answer in gold if normalize(answer)] or [""]
        scores = (
            1,
            max(exact_match(predicted, answer) for answer in gold),
            max(f1(predicted, answer, version=self.version) for answer in gold),
        )
        # The scripts add up in this order: the last digit is the same.
        self._counts[[0, kind]] += scores

    def skip(self) -> None:
        """Adds a question without a prediction, which version 1.1 counts as wrong."""
        self._counts[[0, 1], 0] += 1

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """
        Returns `exact_match` and `f1`, from 0 to 1. With `reset`, at the end of an epoch, version 2.0 also
        has `exact_match-HasAns`, `f1-HasAns`, `exact_match-NoAns`, `f1-NoAns`.
        """
        metrics = {}
        for kind in ("", *ANSWER_KINDS) if reset and self.version == "2.0" else ("",):
            _, *values = self.scores(kind, scale=1.0)
            for name, value in zip(("exact_match", "f1"), values, strict=True):
                metrics[f"{name}-{kind}" if kind else name] = value
        if reset:
            self.reset()
        return metrics

    def scores(self, kind: str = "", *, scale: float) -> tuple[int, float, float]:
        """Returns the number of questions (of a kind), and their exact match and F1 from 0 to `scale`."""
        questions, *sums = self.total_counts()[("", *ANSWER_KINDS).index(kind)].tolist()
        exact, f1 = (scale * total / questions if questions else 0.0 for total in sums)
        return int(questions), exact, f1
