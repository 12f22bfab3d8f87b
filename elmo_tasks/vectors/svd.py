"""
Vectors from counts: the singular vectors of a matrix of positive pointwise mutual information.

Source: Levy, Goldberg and Dagan 2015, "Improving Distributional Similarity with Lessons Learned from Word
Embeddings" (TACL 3), sections 2 and 3: their shift, smoothing of contexts and weight of the singular values.
"""

import math
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np
from allennlp.common.checks import ConfigurationError

from elmo_tasks.vectors.word_vectors import TokenizedText, WordTable, frequent_words

if TYPE_CHECKING:
    from scipy import sparse

_SENTENCES_AT_ONCE = 1 << 16


def ppmi_svd(
    sentences: TokenizedText,
    *,
    dim: int,
    window: int,
    min_count: int,
    shift: float,
    smoothing: float,
    eigenvalues: float,
    seed: int,
) -> WordTable:
    """
    The rows of `U * S ** eigenvalues`, where `U S V` is the truncated singular value decomposition.

    # Parameters

    window : words on each side that count as context; rare words are left out before.
    min_count : words that occur more seldom are left out.
    shift : k: log k is taken off each pointwise mutual information.
    smoothing : the exponent of the counts of contexts.
    eigenvalues : the exponent of the singular values.
    seed : of the vector that the decomposition starts from; it decides about rounding only.

    # Raises
    `ConfigurationError`: not more frequent words than `dim`, or no two that occur together.
    """
    words = list(frequent_words(sentences, min_count))
    if len(words) <= dim:
        raise ConfigurationError(
            f"found {len(words):,} words that occur {min_count} times or more, expected more than the {dim} "
            "dimensions, or a lower --dim or --min-count"
        )
    matrix = positive_information(cooccurrences(sentences, words, window), shift=shift, smoothing=smoothing)
    if not matrix.nnz:
        raise ConfigurationError(
            "found no two words near each other more often than by chance, expected sentences of several "
            "words, or a lower --shift"
        )
    start = np.random.default_rng(seed).standard_normal(len(words))
    from scipy.sparse.linalg import svds

    left, values, _ = svds(matrix, k=dim, v0=start)
    # Largest first, and of the two signs the one with which the largest number is positive
    order = values.argsort()[::-1]
    left, values = left[:, order], values[order]
    left *= np.sign(left[np.abs(left).argmax(axis=0), np.arange(dim)])
    return WordTable(words, (left * values**eigenvalues).astype(np.float32))


def cooccurrences(sentences: TokenizedText, words: list[str], window: int) -> "sparse.csr_array":
    """
    How often each word has each other one within `window` words of the list, on either side.

    *Shape:* `(words, words)`, symmetric.
    """
    ids = {word: number for number, word in enumerate(words)}
    size = len(words)
    from scipy import sparse

    to_the_right = sparse.csr_array((size, size))
    known = ([ids[word] for word in sentence if word in ids] for sentence in sentences)
    for numbers, lines in _flat(known):
        longest = int(np.bincount(lines).max(initial=0))
        for distance in range(1, min(window, longest - 1) + 1):
            same = lines[:-distance] == lines[distance:]
            # (pairs,)
            left, right = numbers[:-distance][same], numbers[distance:][same]
            to_the_right = (
                to_the_right + sparse.coo_array((np.ones(len(left)), (left, right)), (size, size)).tocsr()
            )
    return (to_the_right + to_the_right.T).tocsr()


def positive_information(counts: "sparse.csr_array", *, shift: float, smoothing: float) -> "sparse.csr_array":
    """`max(0, log(p(w, c) / (p(w) p(c))) - log(shift))`. *Shape:* `(words, contexts)`, as `counts`."""
    pairs = counts.tocoo()
    rows, columns = pairs.coords
    # (words,), (contexts,)
    of_words = counts.sum(axis=1)
    of_contexts = counts.sum(axis=0) ** smoothing
    # (pairs,)
    ratio = pairs.data * of_contexts.sum() / (of_words[rows] * of_contexts[columns])
    values = np.maximum(0.0, np.log(ratio) - math.log(shift))
    from scipy import sparse

    information = sparse.csr_array((values, (rows, columns)), counts.shape)
    information.eliminate_zeros()
    return information


def _flat(sentences: Iterator[list[int]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The numbers of many sentences end to end, and for each the sentence that it is in."""
    while some := list(islice(sentences, _SENTENCES_AT_ONCE)):
        lengths = [len(numbers) for numbers in some]
        yield (
            np.fromiter(chain.from_iterable(some), dtype=np.int32),
            np.repeat(np.arange(len(some), dtype=np.int32), lengths),
        )
