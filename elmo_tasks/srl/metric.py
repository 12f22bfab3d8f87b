"""
The evaluation of the CoNLL-2005 shared task, as the official script `srl-eval.pl` does it.

An argument is right if its label and all of its spans are right, see `arguments.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from allennlp.training.metrics import Metric

from elmo_tasks.metrics.base import CountingMetric, LabelCounts, check_tags
from elmo_tasks.srl.arguments import PREDICATE, from_tags


@Metric.register("elmo_srl_eval")
class SrlEval(CountingMetric["Counts"]):
    """Precision, recall and F1 of arguments, exactly as `srl-eval.pl` computes them. See `CountingMetric`."""

    def no_counts(self) -> "Counts":
        return Counts()

    def __call__(self, predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> None:
        """
        Counts propositions: the predicted and the gold IOB2 tags of each, one a word.

        # Raises
        `ValueError`: the numbers of propositions differ, or the numbers of tags in a proposition.
        """
        check_tags(predicted, gold, kind="proposition")
        for guesses, truths in zip(predicted, gold, strict=True):
            self._counts.add_proposition(guesses, truths)

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """
        Returns `precision`, `recall` and `f1` of all arguments without the predicates, as the script and the
        papers report them; the same names with `_with_predicate`; `perfect`, the share of propositions
        without a mistake; then `precision-ARG0`, `recall-ARG0`, `f1-ARG0` for each label, also V. All are
        from 0 to 1.
        """
        counts = self.total_counts(reset=reset)
        labels = counts.labels()
        metrics = counts.scores([label for label in labels if label != PREDICATE])
        for name, value in counts.scores(labels).items():
            metrics[f"{name}_with_predicate"] = value
        metrics["perfect"] = counts.perfect / counts.propositions if counts.propositions else 0.0
        for label in labels:
            for name, value in counts.scores([label]).items():
                metrics[f"{name}-{label}"] = value
        return metrics


@dataclass(kw_only=True)
class Counts(LabelCounts):
    """The counts of arguments by label, where the predicate is `V`, and of propositions."""

    propositions: int = 0
    perfect: int = 0
    """Propositions in which all arguments are right and none is superfluous, apart from the predicate."""

    def add_proposition(self, predicted: Sequence[str], gold: Sequence[str]) -> None:
        """Counts one proposition: its predicted and its gold tags, of equal number."""
        guesses, truths = (set(from_tags(tags)) for tags in (predicted, gold))
        self.predicted.update(argument.label for argument in guesses)
        self.gold.update(argument.label for argument in truths)
        self.correct.update(argument.label for argument in guesses & truths)
        self.perfect += all(argument.label == PREDICATE for argument in guesses ^ truths)
        self.propositions += 1

    def scores(self, labels: Sequence[str]) -> dict[str, float]:
        """Returns precision, recall and F1 of arguments with these labels; 0 for a division by 0."""
        gold, predicted, correct = self.totals(labels)
        return {
            "precision": correct / predicted if predicted else 0.0,
            "recall": correct / gold if gold else 0.0,
            "f1": 2 * correct / (gold + predicted) if correct else 0.0,
        }
