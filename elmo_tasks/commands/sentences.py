"""Sentences put together into batches."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch

from elmo_tasks.elmo import FrozenBiLm


class NumberedSentence(NamedTuple):
    number: int
    """Whose it is: of a line, or of a lane."""
    words: list[str]


def batches(sentences: Iterable[NumberedSentence], tokens: int) -> Iterator[list[NumberedSentence]]:
    """
    Sentences of similar length together, longest first, those without words left out.

    A batch has at most `tokens` positions, padding included, or one sentence that is longer.
    """
    batch: list[NumberedSentence] = []
    by_length = sorted((sentence for sentence in sentences if sentence.words), key=lambda s: -len(s.words))
    for sentence in by_length:
        if batch and (len(batch) + 1) * len(batch[0].words) > tokens:
            yield batch
            batch = []
        batch.append(sentence)
    if batch:
        yield batch


def padded_ids(sentences: Sequence[NumberedSentence], bilm: FrozenBiLm) -> torch.Tensor:
    """*Shape:* `(sentences, longest, *id)`: what `bilm` reads, on its device."""
    return bilm.padded_ids([sentence.words for sentence in sentences])
