"""Words and their vectors, as text in word2vec's layout."""

import gzip
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from allennlp.common.checks import ConfigurationError

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
