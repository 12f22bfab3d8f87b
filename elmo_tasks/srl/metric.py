"""
The arguments of a predicate and their evaluation, as the official script of the CoNLL-2005 shared task does
it (`srl-eval.pl`, 2005-04-21, https://www.cs.upc.edu/~srlconll/soft.html). An argument is right if its label
and all of its spans are right.

A span labelled C-X continues the last argument X before it, which then has several spans; without an X before
it, it is an X. R-X, a reference to an argument, is a label like others. V is the predicate itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from allennlp.training.metrics import Metric

from elmo_tasks.data.formats.roles import PREDICATE, RoleArgument
from elmo_tasks.data.tag_schemes import Scheme, Span, from_spans, to_spans
from elmo_tasks.modules.metrics import CountingMetric, LabelCounts

CONTINUATION = "C-"


def from_tags(tags: Sequence[str]) -> list[RoleArgument]:
    """Reads the arguments, in the order of their first words; tags that are not IOB2: `TagError`."""
    arguments: list[tuple[str, list[tuple[int, int]]]] = []
    latest: dict[str, list[tuple[int, int]]] = {}
    for start, end, label in to_spans(tags, Scheme.IOB2):
        role = label.removeprefix(CONTINUATION)
        if role != label and role in latest:
            latest[role].append((start, end))
        else:
            latest[role] = [(start, end)]
            arguments.append((role, latest[role]))
    return [RoleArgument(role, tuple(spans)) for role, spans in arguments]


def to_tags(arguments: Iterable[RoleArgument], length: int) -> list[str]:
    """
    Returns the IOB2 tags of a sentence of `length` words. A span that is empty, outside the sentence, without
    a label, or overlaps another is a `ValueError`, and so are arguments that tags cannot tell apart.
    """
    expected = sorted(arguments, key=lambda argument: argument.spans)
    spans = [
        Span(start, end, CONTINUATION + label if part else label)
        for label, parts in expected
        for part, (start, end) in enumerate(parts)
    ]
    tags = from_spans(spans, length, Scheme.IOB2)
    if from_tags(tags) != expected:
        raise ValueError(
            f"tags cannot tell these arguments apart: {expected}; the parts of each must go from left to "
            "right, without another argument of its label between them"
        )
    return tags


def in_brackets(words: Sequence[str], tags: Sequence[str]) -> str:
    """Puts each labelled span of IOB2 tags in brackets, such as `[ARG0: Ana] [V: flew]`."""
    parts, position = [], 0
    for start, end, label in to_spans(tags, Scheme.IOB2):
        parts += [*words[position:start], f"[{label}: {' '.join(words[start:end])}]"]
        position = end
    return " ".join([*parts, *words[position:]])


@Metric.register("elmo_srl_eval")
class SrlEval(CountingMetric["ArgumentCounts"]):
    """Precision, recall and F1 of arguments, exactly as `srl-eval.pl` computes them. See `CountingMetric`."""

    def no_counts(self) -> "ArgumentCounts":
        return ArgumentCounts()

    def __call__(self, predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> None:
        """Counts the predicted and gold IOB2 tags of propositions; `ValueError` if their numbers differ."""
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
        metrics |= {f"{name}_with_predicate": value for name, value in counts.scores(labels).items()}
        metrics["perfect"] = counts.perfect / counts.propositions if counts.propositions else 0.0
        return metrics | counts.scores_by_label()


@dataclass(kw_only=True)
class ArgumentCounts(LabelCounts):
    """The counts of arguments by label, where the predicate is `V`, and of propositions."""

    propositions: int = 0
    perfect: int = 0
    """Propositions in which all arguments are right and none is superfluous, apart from the predicate."""

    def add_proposition(self, predicted: Sequence[str], gold: Sequence[str]) -> None:
        guesses, truths = (set(from_tags(tags)) for tags in (predicted, gold))
        self.predicted.update(argument.label for argument in guesses)
        self.gold.update(argument.label for argument in truths)
        self.correct.update(argument.label for argument in guesses & truths)
        self.perfect += all(argument.label == PREDICATE for argument in guesses ^ truths)
        self.propositions += 1
