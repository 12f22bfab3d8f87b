import math
import sys
from collections import Counter

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.vectors import VectorTable, ppmi_svd, skip_gram, training
from elmo_tasks.vectors.training import cooccurrences, frequent_words, positive_information
from tests.vectors.examples import sentences

COMMON = {"window": 2, "min_count": 2, "seed": 13}
SVD = COMMON | {"dim": 4, "shift": 1.0, "smoothing": 0.75, "eigenvalues": 0.5}
SKIP_GRAM = COMMON | {"dim": 8, "negative": 5, "subsample": 0.0, "epochs": 20}


def similarity(table: VectorTable, one: str, other: str) -> float:
    first, second = (table.vectors[table.words.index(word)] for word in (one, other))
    return float(first @ second / ((first @ first) * (second @ second)) ** 0.5)


def test_frequent_words_come_first():
    text = [["b", "a", "a"], [], ["c", "b", "a", "d", "d"]]
    assert list(frequent_words(text, 2).items()) == [("a", 3), ("b", 2), ("d", 2)]
    assert frequent_words(text, 1) == {"a": 3, "b": 2, "d": 2, "c": 1}
    with pytest.raises(ConfigurationError, match="--min-count"):
        frequent_words(text, 4)
    with pytest.raises(ConfigurationError, match="--min-count"):
        frequent_words([[]], 1)


def test_skip_gram_vectors_of_words_with_the_same_neighbours_are_near():
    pytest.importorskip("gensim")
    table = skip_gram(sentences(), **SKIP_GRAM)
    assert table.vectors.shape == (14, 8)
    assert table.vectors.dtype == np.float32
    assert similarity(table, "cat", "dog") > similarity(table, "cat", "pump") + 0.1


def test_skip_gram_reads_the_whole_of_a_long_sentence(monkeypatch):
    """gensim alone would drop everything after the first 10,000 words."""
    pytest.importorskip("gensim")
    text = [["a", "b"] * 5000 + ["c", "d"] * 200]
    whole = skip_gram(text, **SKIP_GRAM | {"epochs": 1})
    monkeypatch.setattr(training, "_MAX_GENSIM_WORDS", 10**9)
    cut = skip_gram(text, **SKIP_GRAM | {"epochs": 1})
    assert not np.allclose(whole.vectors[whole.words.index("c")], cut.vectors[cut.words.index("c")])


def test_skip_gram_without_gensim(monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ConfigurationError, match="gensim"):
        skip_gram(sentences(), **SKIP_GRAM)


def counted(text: list[list[str]], words: list[str], window: int) -> np.ndarray:
    """Counts word by word."""
    pairs = Counter()
    for sentence in text:
        kept = [word for word in sentence if word in words]
        for i, word in enumerate(kept):
            for other in range(max(0, i - window), min(len(kept), i + window + 1)):
                if other != i:
                    pairs[word, kept[other]] += 1
    return np.array([[float(pairs[one, other]) for other in words] for one in words])


@pytest.mark.parametrize("at_once", [3, 1 << 16])
@pytest.mark.parametrize("window", [1, 3, 9, 1 << 40])
def test_counts(window, at_once, monkeypatch):
    monkeypatch.setattr(training, "_SENTENCES_AT_ONCE", at_once)
    text = [["a", "b", "rare", "a", "c", "b", "a"], [], ["c"], ["b", "b"], ["a", "rare"], ["c", "a", "b"]]
    words = ["a", "b", "c"]
    np.testing.assert_array_equal(cooccurrences(text, words, window).toarray(), counted(text, words, window))


def test_information_by_the_definition():
    text, words = sentences(), ["the", "cat", "dog", "eats", "sleeps", "we", "this", "pump"]
    counts = cooccurrences(text, words, 2)
    dense, expected = counts.toarray(), np.zeros(counts.shape)
    smoothed = dense.sum(axis=0) ** 0.75
    for row, column in zip(*dense.nonzero(), strict=True):
        joint = dense[row, column] / dense.sum()
        alone = dense[row].sum() / dense.sum()
        context = smoothed[column] / smoothed.sum()
        expected[row, column] = max(0.0, math.log(joint / (alone * context)) - math.log(1.2))
    information = positive_information(counts, shift=1.2, smoothing=0.75)
    np.testing.assert_allclose(information.toarray(), expected, atol=1e-12)
    assert information.nnz == np.count_nonzero(expected)


def test_svd_against_a_whole_decomposition():
    table = ppmi_svd(sentences(), **SVD)
    counts = Counter(word for sentence in sentences() for word in sentence)
    assert table.words == [word for word, _ in counts.most_common()]
    matrix = positive_information(cooccurrences(sentences(), table.words, 2), shift=1.0, smoothing=0.75)
    left, values, _ = np.linalg.svd(matrix.toarray())
    expected = left[:, :4] * values[:4] ** 0.5
    # The subspaces agree, whatever the signs and the rotation of vectors with equal values.
    np.testing.assert_allclose(table.vectors @ table.vectors.T, expected @ expected.T, atol=1e-4)
    largest = table.vectors[np.abs(table.vectors).argmax(axis=0), range(4)]
    assert (largest > 0).all()
    np.testing.assert_array_equal(table.vectors, ppmi_svd(sentences(), **SVD).vectors)
    assert similarity(table, "cat", "dog") > 0.9
    assert similarity(table, "cat", "pump") < 0.5


def test_svd_of_too_few_words():
    with pytest.raises(ConfigurationError):
        ppmi_svd(sentences(), **SVD | {"dim": 14})
