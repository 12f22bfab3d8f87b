"""Sentences in windows and batches, and the vectors of one batch after the other."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from elmo_tasks.common.batches import batches
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.model import LstmState

LAYERS = ("all", "top", "average", "sum")
POOLS = ("none", "mean")
BATCH_TOKENS = 2048
"""The most positions of a batch, padding included."""
WINDOW_SENTENCES, WINDOW_TOKENS = 4096, 1 << 14


def check_layers(layers: str, num_layers: int, *, option: str) -> None:
    if layers not in LAYERS and not (layers.isdecimal() and int(layers) < num_layers):
        raise ElmoError(
            f"{option} is {layers!r}",
            remedy=f"use {', '.join(LAYERS)}, or a number from 0, the token layer, to {num_layers - 1}",
        )


class NumberedSentence(NamedTuple):
    number: int
    """The index of the sentence, or the number of its line; in `calibrate`, the index of its lane."""
    words: list[str]


def windows(
    numbered: Iterable[NumberedSentence], *, sentences: int = WINDOW_SENTENCES, tokens: int = WINDOW_TOKENS
) -> Iterator[list[NumberedSentence]]:
    """Yields neighbouring sentences in their order. A window ends at `sentences` or `tokens`."""
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
    Yields batches of similar length, longest first, of at most `tokens` positions, padding included, or one
    longer sentence. Sentences without words are left out.
    """

    def length(sentence: NumberedSentence) -> int:
        return len(sentence.words)

    by_length = sorted(filter(length, numbered), key=length, reverse=True)
    for batch in batches(by_length, length, tokens):
        for first in range(0, len(batch), sentences):
            yield batch[first : first + sentences]


@dataclass(kw_only=True)
class BatchEncoder:
    """
    Computes the vectors of windows of sentences, which it sorts by length into batches. A sentence starts in
    the state `start`, `(layers, 2, 1, ...)`; if `stateful`, in which the one before it ended.
    """

    bilm: FrozenBiLm
    start: LstmState
    layers: str = "all"
    """One of `LAYERS`, or the number of a layer."""
    pool: str = "none"
    stateful: bool = False
    batch_tokens: int = BATCH_TOKENS
    batch_sentences: int = sys.maxsize
    dtype: str = "float32"
    state: LstmState | None = None

    @property
    def num_layers(self) -> int:
        return self.bilm.num_layers if self.layers == "all" else 1

    def shape(self, tokens: int) -> tuple[int, ...]:
        """Returns the shape of a sentence's vectors in a file, by its number of tokens."""
        leading = (self.num_layers,) if self.layers == "all" else ()
        return (*leading, *((tokens,) if self.pool == "none" else ()), self.bilm.options.output_dim)

    def vectors(self, window: Sequence[NumberedSentence]) -> list[np.ndarray]:
        """
        Returns the vectors of each sentence, in their order. A batch that does not fit into the device's
        memory, a vector that is not finite, and a value that `dtype` cannot hold are an `ElmoError`, whose
        `line` is the sentence's number.

        *Shape:* `(layers, tokens, dim)`; with `pool` `(layers, 1, dim)`, zeros for a sentence without words.
        """
        dim = self.bilm.options.output_dim
        without_words = np.zeros((self.num_layers, int(self.pool != "none"), dim), self.dtype)
        vectors = {sentence.number: without_words for sentence in window}
        if self.stateful:
            batches: Iterable[list[NumberedSentence]] = ([sentence] for sentence in window if sentence.words)
        else:
            batches = batches_by_length(window, self.batch_tokens, sentences=self.batch_sentences)
        for batch in batches:
            layers = self._vectors(batch)
            for row, sentence in enumerate(batch):
                vectors[sentence.number] = layers[:, row, : len(sentence.words)]
        return list(vectors.values())

    @torch.no_grad()
    def _vectors(self, batch: list[NumberedSentence]) -> np.ndarray:
        """*Shape:* `(layers, sentences, longest, dim)`; with `pool`, `longest` is 1."""
        ids = self.bilm.padded_ids(sentence.words for sentence in batch)
        try:
            if self.stateful:
                layers, self.state = self.bilm(ids, self.state or self.start)
            else:
                layers = self.bilm.encode(ids, self.start)
        except torch.OutOfMemoryError as error:
            raise ElmoError(
                f"{self.bilm.device} lacks the memory for {len(batch)} sentences of {ids.size(1):,} tokens",
                line=batch[0].number,
            ) from error
        problem = "the vectors are not finite: the weights are damaged, or the options are of another biLM"
        _check_finite(batch, layers, problem)
        if self.layers == "top":
            layers = layers[-1:]
        elif self.layers == "average":
            layers = layers.mean(dim=0, keepdim=True)
        elif self.layers == "sum":
            layers = layers.sum(dim=0, keepdim=True)
        elif self.layers != "all":
            layers = layers[[int(self.layers)]]
        if self.pool == "mean":
            # After the end of a sentence are zeros.
            lengths = torch.tensor([len(sentence.words) for sentence in batch], device=layers.device)
            layers = layers.sum(dim=2, keepdim=True) / lengths.view(1, -1, 1, 1)
        layers = layers.to(getattr(torch, self.dtype))
        if self.dtype == "float16":
            _check_finite(batch, layers, "float16 cannot hold a value above 65,504; use --dtype float32")
        return layers.cpu().numpy()


def _check_finite(batch: list[NumberedSentence], layers: torch.Tensor, message: str) -> None:
    """*Shape:* `(layers, sentences, longest, dim)`."""
    finite = torch.isfinite(layers)
    if not finite.all():
        row = int((~finite).any(dim=3).any(dim=2).any(dim=0).int().argmax())
        raise ElmoError(message, line=batch[row].number)
