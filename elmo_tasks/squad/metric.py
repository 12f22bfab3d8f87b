"""
Exact match and F1 as the official scripts of SQuAD compute them, evaluate-v1.1.py and evaluate-v2.0.py.

Source: https://rajpurkar.github.io/SQuAD-explorer/.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np
from allennlp.common.checks import ConfigurationError
from allennlp.training.metrics import Metric

from elmo_tasks.metrics.base import CountingMetric

VERSIONS = ("1.1", "2.0")
KINDS = ("HasAns", "NoAns")
"""Version 2.0's names of the questions that have an answer, and of the others."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(answer: str) -> str:
    """In lower case; without ASCII punctuation, then without articles, then with single blanks."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(predicted: str, gold: str) -> int:
    """Whether the normalised texts are equal."""
    return int(normalize(predicted) == normalize(gold))


def f1(predicted: str, gold: str, *, version: str) -> float:
    """
    The F1 of the words of the normalised texts; where one has none, 0, or with 2.0 whether both have none.
    """
    guesses, truths = normalize(predicted).split(), normalize(gold).split()
    if version == "2.0" and not (guesses and truths):
        return float(guesses == truths)
    correct = (Counter(guesses) & Counter(truths)).total()
    if not correct:
        return 0.0
    precision, recall = correct / len(guesses), correct / len(truths)
    return 2 * precision * recall / (precision + recall)


@Metric.register("elmo_squad")
class SquadMetric(CountingMetric[np.ndarray]):
    """
    The best exact match and F1 over the gold answers of each question, and their means. See `CountingMetric`.

    # Parameters

    version : `1.1`, or `2.0`, where a question may have no answer, which the empty string predicts.

    # Raises
    `ConfigurationError`: another version.
    """

    def __init__(self, version: str = "1.1") -> None:
        if version not in VERSIONS:
            raise ConfigurationError(f"version: found {version!r}, expected one of {', '.join(VERSIONS)}")
        self.version = version
        super().__init__()

    def no_counts(self) -> np.ndarray:
        """
        *Shape:* `(3, 3)`: for all questions and those of each of `KINDS`, their number, and the sums of exact
        match and F1.
        """
        return np.zeros((1 + len(KINDS), 3))

    def __call__(self, predicted: str, gold: Sequence[str]) -> None:
        """
        Add a question: the predicted answer, and all gold ones.

        # Raises
        `ConfigurationError`: there are no gold ones, with version 1.1.
        """
        if not gold and self.version == "1.1":
            raise ConfigurationError("found a question without gold answers, which only SQuAD 2.0 has")
        kind = 1 if gold else 2
        if self.version == "2.0":
            gold = [answer for answer in gold if normalize(answer)] or [""]
        scores = (
            1,
            max(exact_match(predicted, answer) for answer in gold),
            max(f1(predicted, answer, version=self.version) for answer in gold),
        )
        # One after the other, as the scripts add up, so that the last digit is theirs.
        self._counts[[0, kind]] += scores

    def skip(self) -> None:
        """Add a question without a prediction: version 1.1 counts it as wrong."""
        self._counts[[0, 1], 0] += 1

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """
        `exact_match` and `f1`, from 0 to 1. With `reset`, at the end of an epoch, and version 2.0 also
        `exact_match-HasAns`, `f1-HasAns`, `exact_match-NoAns`, `f1-NoAns`.
        """
        metrics = {}
        for kind in ("", *KINDS) if reset and self.version == "2.0" else ("",):
            _, *values = self.scores(kind, scale=1.0)
            for name, value in zip(("exact_match", "f1"), values, strict=True):
                metrics[f"{name}-{kind}" if kind else name] = value
        if reset:
            self.reset()
        return metrics

    def scores(self, kind: str = "", *, scale: float) -> tuple[int, float, float]:
        """
        The number of questions of a kind, or of all, and their exact match and F1, from 0 to `scale`; 0
        without questions. The order of the operations is that of the scripts.
        """
        questions, *sums = self.total_counts()[("", *KINDS).index(kind)].tolist()
        exact, f1 = (scale * total / questions if questions else 0.0 for total in sums)
        return int(questions), exact, f1
