"""One vector per word from an encoder: of the word alone, or averaged over its occurrences in a text."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

import torch

from elmo_tasks.common.progress import progress
from elmo_tasks.vectors.encoder import Encoder
from elmo_tasks.vectors.text_format import WordTable

Sentence = str | Sequence[str]


class WordVectors(NamedTuple):
    """The vectors of words in one row of an encoder. All rows have the same words in the same order."""

    name: str
    """The name of the row."""
    vectors: torch.Tensor
    """`(words, dim)`"""
    known: torch.Tensor
    """`(words,)`: which words have a vector. The vectors of other words have no meaning."""

    def table(self, words: Sequence[str]) -> WordTable:
        """Returns the known words and their vectors; `words` are the words of all rows."""
        known_words = [word for word, is_known in zip(words, self.known.tolist(), strict=True) if is_known]
        return WordTable(known_words, self.vectors[self.known].float().numpy())


def alone(encoder: Encoder, words: Sequence[str]) -> list[WordVectors]:
    """Returns the vectors of words as sentences of their own, for each row."""
    sentences = progress([[word] for word in words], work=f"{encoder.names[0]} ...", unit="words")
    # (words, rows, dim)
    vectors = torch.cat([vectors.transpose(0, 1) for vectors in encoder.encode(sentences)])
    return _by_row(encoder, vectors, encoder.known(words))


def in_contexts(
    encoder: Encoder, words: Sequence[str], lines: Iterable[Sentence], *, limit: int, seed: int
) -> list[WordVectors]:
    """
    Returns the vectors of words, averaged over their occurrences in a text, for each row. A word without
    occurrences is not known.

    # Parameters

    lines : a sentence each, as tokens or as a text with blanks between them; they are read twice.
    limit, seed : see `sample_occurrences`.
    """
    occurrences = sample_occurrences(lines, words, limit=limit, seed=seed)
    chosen = ((number, _tokens(line)) for number, line in enumerate(lines) if number in occurrences)
    bar = progress(chosen, total=len(occurrences), work="occurrences", unit="sentences")
    sums = torch.zeros(len(words), len(encoder.names), encoder.dim)
    counts = torch.zeros(len(words), 1, 1)
    for (number, _), vectors in encoder.encode_items(bar, itemgetter(1)):
        for position, word in occurrences[number]:
            sums[word] += vectors[:, position]
            counts[word] += 1
    known = encoder.known(words) & (counts.flatten() > 0)
    # (words, rows, dim)
    return _by_row(encoder, sums / counts.clamp(min=1), known)


def sample_occurrences(
    lines: Iterable[Sentence], words: Sequence[str], *, limit: int, seed: int
) -> dict[int, list[tuple[int, int]]]:
    """
    Finds words in a text. Returns for each line with one of them their positions in it, and their indices in
    `words`.

    If a word has more than `limit` occurrences, `limit` of them are drawn, all with the same chance. If it
    never occurs as it is spelt, case is ignored.
    """
    draw = random.Random(seed)
    exact = {word: _Sample() for word in words}
    folded = {word.lower(): _Sample() for word in words}

    @lru_cache(maxsize=1 << 17)
    def samples(token: str) -> list["_Sample"]:
        both = (exact.get(token), folded.get(token.lower()))
        return [sample for sample in both if sample is not None]

    for number, line in enumerate(progress(lines, work="looking for words", unit="lines")):
        for position, token in enumerate(_tokens(line)):
            for sample in samples(token):
                sample.add((number, position), limit, draw)
    occurrences: dict[int, list[tuple[int, int]]] = {}
    for index, word in enumerate(words):
        for number, position in exact[word].sample or folded[word.lower()].sample:
            occurrences.setdefault(number, []).append((position, index))
    return occurrences


@dataclass
class _Sample:
    """A reservoir, which keeps each of all occurrences with the same chance (Vitter 1985, algorithm R)."""

    seen: int = 0
    sample: list[tuple[int, int]] = field(default_factory=list)

    def add(self, occurrence: tuple[int, int], limit: int, draw: random.Random) -> None:
        self.seen += 1
        if len(self.sample) < limit:
            self.sample.append(occurrence)
        elif (slot := draw.randrange(self.seen)) < limit:
            self.sample[slot] = occurrence


def _tokens(sentence: Sentence) -> Sequence[str]:
    return sentence.split() if isinstance(sentence, str) else sentence


def _by_row(encoder: Encoder, vectors: torch.Tensor, known: torch.Tensor) -> list[WordVectors]:
    """*Shape:* `vectors` `(words, rows, dim)`."""
    return [WordVectors(name, vectors[:, row], known) for row, name in enumerate(encoder.names)]
