"""
Words and their vectors, as text in word2vec's layout.

One vector a word: of the word as a sentence of its own, or averaged over its occurrences in a text.
"""

import gzip
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.common.progress import progress
from elmo_tasks.vectors.encoder import Encoder

# ==== vectors.word_table
TokenizedText = Iterable[list[str]]
"""The words of each sentence. It is read several times, so no generator."""


class WordTable(NamedTuple):
    """Words, the most frequent first, and their vectors. *Shape:* `(words, dim)`, float32."""

    words: list[str]
    vectors: np.ndarray


def frequent_words(sentences: TokenizedText, min_count: int) -> dict[str, int]:
    """
    The words that occur `min_count` times or more, and how often, the most frequent first.

    # Raises
    `ConfigurationError`: there is none.
    """
    counts = Counter(word for words in sentences for word in words)
    frequent = {word: count for word, count in counts.most_common() if count >= min_count}
    if not frequent:
        raise ConfigurationError(
            f"found {len(counts):,} words, none of them {min_count} times; expected some, or a lower "
            "--min-count"
        )
    return frequent


def write_table(path: Path, table: WordTable) -> None:
    """
    A line with the number of words and of dimensions, then a line a word: the word and its numbers, between
    blanks. Gzip if the name ends in `.gz`; equal tables are equal bytes.

    Format: Mikolov's word2vec, also read by AllenNLP's `embedding` and by gensim.
    """
    with open(path, "wb") as raw:
        packed = path.suffix == ".gz"
        file = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) if packed else raw
        with file:
            file.write(f"{len(table.words)} {table.vectors.shape[1]}\n".encode())
            for word, vector in zip(table.words, table.vectors.tolist(), strict=True):
                file.write(f"{word} {' '.join(f'{value:.7g}' for value in vector)}\n".encode())


# ==== vectors.word_vectors
Sentence = str | Sequence[str]


class WordVectors(NamedTuple):
    """Vectors of words. Those of other names have the same words in the same order."""

    name: str
    vectors: torch.Tensor
    """`(words, dim)`"""
    known: torch.Tensor
    """`(words,)`: which words have a vector; those of the others mean nothing."""

    def table(self, words: Sequence[str]) -> WordTable:
        """The known ones of `words`, which are those of the rows."""
        known_words = [word for word, is_known in zip(words, self.known.tolist(), strict=True) if is_known]
        return WordTable(known_words, self.vectors[self.known].float().numpy())


def alone(encoder: Encoder, words: Sequence[str]) -> list[WordVectors]:
    """Each row's vectors of words that are sentences of their own."""
    sentences = progress([[word] for word in words], work=f"{encoder.names[0]} ...", unit="words")
    # (words, rows, dim)
    vectors = torch.cat([vectors.transpose(0, 1) for vectors in encoder.encode(sentences)])
    return _by_row(encoder, vectors, encoder.known(words))


def in_contexts(
    encoder: Encoder, words: Sequence[str], lines: Iterable[Sentence], *, limit: int, seed: int
) -> list[WordVectors]:
    """
    Each row's vectors of words, averaged over occurrences in a text; a word without any is not known.

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
    Where words stand in a text: for a line, positions in it and which word of `words` each is.

    Of a word with more than `limit` occurrences, so many are drawn, all with the same chance. A word that
    never stands there as it is has the occurrences of those that differ from it only in case.
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
    """A reservoir: each of all occurrences is kept with the same chance (Vitter 1985, algorithm R)."""

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
