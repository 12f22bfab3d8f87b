"""Sentences put together into windows and batches."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch

from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.inference.batches import batches


class NumberedSentence(NamedTuple):
    number: int
    """The number of the line, or of the lane, that the sentence comes from."""
    words: list[str]


def windows(
    numbered: Iterable[NumberedSentence], *, sentences: int, tokens: int
) -> Iterator[list[NumberedSentence]]:
    """Neighbours together, in their order; a window ends when it has so many sentences, or so many tokens."""
    window: list[NumberedSentence] = []
    total = 0
    for sentence in numbered:
        window.append(sentence)
        total += len(sentence.words)
        if len(window) == sentences or total >= tokens:
            yield window
            window, total = [], 0
    if window:
        yield window


def batches_by_length(
    numbered: Iterable[NumberedSentence], tokens: int, *, sentences: int = sys.maxsize
) -> Iterator[list[NumberedSentence]]:
    """
    Sentences of similar length together, longest first, those without words left out.

    A batch has at most `tokens` positions, padding included, or one sentence that is longer; and at most so
    many `sentences`.
    """

    def length(sentence: NumberedSentence) -> int:
        return len(sentence.words)

    by_length = sorted(filter(length, numbered), key=length, reverse=True)
    for batch in batches(by_length, length, tokens):
        for first in range(0, len(batch), sentences):
            yield batch[first : first + sentences]


def padded_ids(sentences: Sequence[NumberedSentence], bilm: FrozenBiLm) -> torch.Tensor:
    """*Shape:* `(sentences, longest, *id)`: what `bilm` reads, on its device."""
    return bilm.padded_ids([sentence.words for sentence in sentences])
