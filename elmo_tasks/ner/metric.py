"""
The evaluation of the CoNLL shared tasks, as the official script `conlleval` (2004-01-26) does it.

Source: https://www.clips.uantwerpen.be/conll2000/chunking/output.html and the script that this page links to.
Here the script's definitions are two tables and two rules. They hold for any tags, also for sequences that no
tag scheme allows: I-X after O or after another type, the prefixes E, `[` and `]`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from allennlp.training.metrics import Metric

from elmo_tasks.data.tag_schemes import Tag, split_tag
from elmo_tasks.modules.metrics import CountingMetric, LabelCounts

_BOUNDARY = Tag("O", "")

# Prefixes of two neighbours between which a chunk ends, or starts, even if their types are equal.
_ENDS = {tuple(pair) for pair in ("BB", "BO", "IB", "IO", "EE", "EI", "EO")}
_STARTS = {tuple(pair) for pair in ("BB", "IB", "OB", "OI", "EE", "EI", "OE")}
_NO_CHUNK = ("O", ".")
_ONE_TOKEN = ("[", "]")


@Metric.register("elmo_conlleval")
class ConllEval(CountingMetric["ChunkCounts"]):
    """
    Precision, recall and F1 of chunks, and accuracy of tags, exactly as `conlleval` computes them.

    A sentence boundary counts as `O`. A type is the part of a tag after its first hyphen; a tag without a
    hyphen (`B`) has the empty type, which counts in the totals and has no metrics of its own. Two accidents
    of the script are left out: it takes the type `0` for the empty type, and continues a chunk whose last tag
    has the prefix `.` in the next sentence.

    See `CountingMetric`.
    """

    def no_counts(self) -> "ChunkCounts":
        return ChunkCounts()

    def __call__(self, predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> None:
        """Counts the predicted and gold tags of sentences; `ValueError` if their numbers differ."""
        for guesses, truths in zip(predicted, gold, strict=True):
            self._counts.add_sentence(guesses, truths)

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """
        Returns `precision`, `recall`, `f1` and `accuracy`, then `precision-PER`, `recall-PER`, `f1-PER` for
        each type of a gold or predicted chunk; all from 0 to 1.
        """
        counts = self.total_counts(reset=reset)
        metrics = counts.scores(counts.labels())
        metrics["accuracy"] = counts.correct_tags / counts.tokens if counts.tokens else 0.0
        return metrics | counts.scores_by_label()


@dataclass(kw_only=True)
class ChunkCounts(LabelCounts):
    """The counts of chunks by type, and of tokens."""

    tokens: int = 0
    correct_tags: int = 0

    def add_sentence(self, predicted: Sequence[str], gold: Sequence[str]) -> None:
        guesses = [_BOUNDARY, *map(split_tag, predicted)]
        truths = [_BOUNDARY, *map(split_tag, gold)]
        matching = False  # within a gold and a predicted chunk that agree so far
        for (before, guess), (truth_before, truth) in zip(pairwise(guesses), pairwise(truths), strict=True):
            ends, truth_ends = _ends(before, guess), _ends(truth_before, truth)
            if matching and ends and truth_ends:
                self.correct[truth_before.label] += 1
            matching = matching and not ends and not truth_ends and guess.label == truth.label
            starts, truth_starts = _starts(before, guess), _starts(truth_before, truth)
            matching = matching or (starts and truth_starts and guess.label == truth.label)
            if starts:
                self.predicted[guess.label] += 1
            if truth_starts:
                self.gold[truth.label] += 1
            self.correct_tags += guess == truth
            self.tokens += 1
        if matching:
            self.correct[truths[-1].label] += 1


def _ends(previous: Tag, tag: Tag) -> bool:
    return (
        (previous.prefix, tag.prefix) in _ENDS
        or (previous.prefix not in _NO_CHUNK and previous.label != tag.label)
        or previous.prefix in _ONE_TOKEN
    )


def _starts(previous: Tag, tag: Tag) -> bool:
    return (
        (previous.prefix, tag.prefix) in _STARTS
        or (tag.prefix not in _NO_CHUNK and previous.label != tag.label)
        or tag.prefix in _ONE_TOKEN
    )
