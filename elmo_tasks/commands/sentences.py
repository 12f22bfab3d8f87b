"""Sentences put together into batches."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from elmo_tasks.elmo.characters import CHARACTERS_PER_WORD, character_ids


class Sentence(NamedTuple):
    number: int
    """Whose it is: of a line, or of a lane."""
    words: list[str]


def batches(sentences: Iterable[Sentence], tokens: int) -> Iterator[list[Sentence]]:
    """
    Sentences of similar length together, longest first, those without words left out.

    A batch has at most `tokens` positions, padding included, or one sentence that is longer.
    """
    batch: list[Sentence] = []
    by_length = sorted((sentence for sentence in sentences if sentence.words), key=lambda s: -len(s.words))
    for sentence in by_length:
        if batch and (len(batch) + 1) * len(batch[0].words) > tokens:
            yield batch
            batch = []
        batch.append(sentence)
    if batch:
        yield batch


def padded_ids(sentences: Sequence[Sentence], device: torch.device) -> torch.Tensor:
    """*Shape:* `(sentences, longest, 50)`, `int16`: what `BiLm` reads."""
    longest = max(len(sentence.words) for sentence in sentences)
    ids = np.zeros((len(sentences), longest, CHARACTERS_PER_WORD), dtype=np.int16)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence.words)] = character_ids(sentence.words)
    return torch.from_numpy(ids).to(device)
