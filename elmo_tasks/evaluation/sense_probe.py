"""Word sense disambiguation by the nearest averaged vector (Peters et al. 2018, section 5.3)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch.nn import functional as F

from elmo_tasks.evaluation.cosine import round_cosines
from elmo_tasks.evaluation.senses import SenseSentence, Target
from elmo_tasks.progress import progress
from elmo_tasks.vectors.encoder import Encoder


class SenseProbe:
    """
    A sense is the mean of the vectors of its occurrences in the training data; an occurrence has the sense of
    the highest cosine among those of its lemma. Of equally near ones the most frequent is taken, and so it is
    where the occurrence has no vector. A lemma that was not in training has its first sense, where
    `first_senses` has one, or else no answer, which is wrong.

    # Parameters

    encoder : of the vectors.
    first_senses : by lemma.
    """

    def __init__(self, *, encoder: Encoder, first_senses: Mapping[str, str]) -> None:
        self._encoder = encoder
        self._first_senses = first_senses
        self._senses: dict[str, list[str]] = {}
        self._vectors: dict[str, torch.Tensor] = {}
        """`(senses of the lemma, rows, dim)`, normalised."""

    def train(self, sentences: Sequence[SenseSentence]) -> None:
        self._senses = senses_by_frequency(sentences)
        means: defaultdict[tuple[str, str], _Mean] = defaultdict(_Mean)
        for target, vector in self._targets(sentences, "train"):
            for sense in target.senses:
                means[target.lemma, sense].add(vector)
        self._vectors = {
            lemma: F.normalize(torch.stack([means[lemma, sense].value for sense in senses]), dim=2)
            for lemma, senses in self._senses.items()
        }

    def correct(self, sentences: Sequence[SenseSentence]) -> dict[str, int]:
        """How many targets each row has right."""
        correct = dict.fromkeys(self._encoder.names, 0)
        for target, vector in self._targets(sentences, "dev"):
            for name, answer in zip(self._encoder.names, self._answers(target, vector), strict=True):
                correct[name] += answer in target.senses
        return correct

    def _answers(self, target: Target, vector: torch.Tensor) -> list[str | None]:
        """The answer of each row. *Shape:* `vector` `(rows, dim)`."""
        if target.lemma not in self._senses:
            return [self._first_senses.get(target.lemma)] * len(vector)
        # (senses, rows)
        cosines = torch.einsum("srd,rd->sr", self._vectors[target.lemma], F.normalize(vector, dim=1))
        best = round_cosines(cosines).argmax(dim=0)
        return [self._senses[target.lemma][sense] for sense in best.tolist()]

    def _targets(
        self, sentences: Sequence[SenseSentence], name: str
    ) -> Iterator[tuple[Target, torch.Tensor]]:
        """Each target, and its vectors, `(rows, dim)`."""
        bar = progress(sentences, work=name, unit="sentences")
        for sentence, vectors in self._encoder.encode_items(bar, lambda sentence: sentence.words):
            for target in sentence.targets:
                yield target, self._encoder.occurrence(vectors, target.start, target.end)


class _Mean:
    """The mean of vectors that come one by one; of equal ones it is exactly that vector."""

    def __init__(self) -> None:
        self.value = torch.zeros(())
        self._count = 0

    def add(self, vector: torch.Tensor) -> None:
        self._count += 1
        self.value = self.value + (vector - self.value) / self._count


class Baseline(NamedTuple):
    """Answers that no vector is needed for."""

    correct: int
    unseen: int
    """Targets whose lemma is not in the training data."""
    total: int


def senses_by_frequency(sentences: Iterable[SenseSentence]) -> dict[str, list[str]]:
    """The senses of each lemma, the most frequent first; of equally frequent ones the one seen first."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences:
        for target in sentence.targets:
            counts[target.lemma].update(target.senses)
    return {lemma: [sense for sense, _ in senses.most_common()] for lemma, senses in counts.items()}


def sense_baseline(
    train: Iterable[SenseSentence], dev: Iterable[SenseSentence], first_senses: Mapping[str, str]
) -> Baseline:
    """The most frequent sense in training, or, of a lemma that is not there, the first."""
    known = senses_by_frequency(train)
    answers = {**first_senses, **{lemma: senses[0] for lemma, senses in known.items()}}
    targets = [target for sentence in dev for target in sentence.targets]
    return Baseline(
        correct=sum(answers.get(target.lemma) in target.senses for target in targets),
        unseen=sum(target.lemma not in known for target in targets),
        total=len(targets),
    )
