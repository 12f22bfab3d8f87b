"""Sentences put together into batches."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch

from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.elmo.inference.batches import batches


class NumberedSentence(NamedTuple):
    number: int
    """The number of the line, or of the lane, that the sentence comes from."""
    words: list[str]


def batches_by_length(sentences: Iterable[NumberedSentence], tokens: int) -> Iterator[list[NumberedSentence]]:
    """
    Sentences of similar length together, longest first, those without words left out.

    A batch has at most `tokens` positions, padding included, or one sentence that is longer.
    """

    def length(sentence: NumberedSentence) -> int:
        return len(sentence.words)

    by_length = sorted(filter(length, sentences), key=length, reverse=True)
    return batches(by_length, length, tokens)


def padded_ids(sentences: Sequence[NumberedSentence], bilm: FrozenBiLm) -> torch.Tensor:
    """*Shape:* `(sentences, longest, *id)`: what `bilm` reads, on its device."""
    return bilm.padded_ids([sentence.words for sentence in sentences])
