import math
from collections import Counter

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.vectors import ppmi_svd, svd
from elmo_tasks.vectors.svd import cooccurrences, positive_information
from tests.vectors.texts import sentences, similarity

SETTINGS = {
    "dim": 4,
    "window": 2,
    "min_count": 2,
    "shift": 1.0,
    "smoothing": 0.75,
    "eigenvalues": 0.5,
    "seed": 13,
}


def counted(text, words, window):
    """Word by word."""
    pairs = Counter()
    for sentence in text:
        kept = [word for word in sentence if word in words]
        for place, word in enumerate(kept):
            for other in range(max(0, place - window), min(len(kept), place + window + 1)):
                if other != place:
                    pairs[word, kept[other]] += 1
    return np.array([[float(pairs[one, other]) for other in words] for one in words])


@pytest.mark.parametrize("at_once", [3, 1 << 16])
@pytest.mark.parametrize("window", [1, 3, 9, 1 << 40])
def test_counts(window, at_once, monkeypatch):
    monkeypatch.setattr(svd, "_SENTENCES_AT_ONCE", at_once)
    text = [["a", "b", "rare", "a", "c", "b", "a"], [], ["c"], ["b", "b"], ["a", "rare"], ["c", "a", "b"]]
    words = ["a", "b", "c"]
    np.testing.assert_array_equal(cooccurrences(text, words, window).toarray(), counted(text, words, window))


def test_information_is_that_of_the_paper():
    text, words = sentences(), ["the", "cat", "dog", "eats", "sleeps", "we", "this", "pump"]
    counts = cooccurrences(text, words, 2)
    dense, expected = counts.toarray(), np.zeros(counts.shape)
    smoothed = dense.sum(axis=0) ** 0.75
    for row, column in zip(*dense.nonzero(), strict=True):
        joint = dense[row, column] / dense.sum()
        alone = dense[row].sum() / dense.sum()
        context = smoothed[column] / smoothed.sum()
        expected[row, column] = max(0.0, math.log(joint / (alone * context)) - math.log(1.2))
    found = positive_information(counts, shift=1.2, smoothing=0.75)
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-12)
    assert found.nnz == np.count_nonzero(expected)


def test_vectors_are_those_of_a_whole_decomposition():
    table = ppmi_svd(sentences(), **SETTINGS)
    counts = Counter(word for sentence in sentences() for word in sentence)
    assert table.words == [word for word, _ in counts.most_common()]
    matrix = positive_information(cooccurrences(sentences(), table.words, 2), shift=1.0, smoothing=0.75)
    left, values, _ = np.linalg.svd(matrix.toarray())
    expected = left[:, :4] * values[:4] ** 0.5
    # The subspaces agree, whatever the signs and turns of equal values.
    np.testing.assert_allclose(table.vectors @ table.vectors.T, expected @ expected.T, atol=1e-4)
    largest = table.vectors[np.abs(table.vectors).argmax(axis=0), range(4)]
    assert (largest > 0).all()
    np.testing.assert_array_equal(table.vectors, ppmi_svd(sentences(), **SETTINGS).vectors)


def test_words_of_equal_neighbours_are_near():
    table = ppmi_svd(sentences(), **SETTINGS)
    assert similarity(table, "cat", "dog") > 0.9
    assert similarity(table, "cat", "pump") < 0.5


def test_words_that_never_stand_together():
    with pytest.raises(ConfigurationError, match="found no two words near each other more often than by ch"):
        ppmi_svd([["play"], ["music"], ["light"]], **SETTINGS | {"dim": 1, "min_count": 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 14}, "found 14 words that occur 2 times or more, expected more than the 14 dimensions"),
        ({"min_count": 1000}, "none of them 1000 times; expected some, or a lower --min-count"),
    ],
)
def test_too_few_words(change, message):
    with pytest.raises(ConfigurationError, match=message):
        ppmi_svd(sentences(), **SETTINGS | change)
