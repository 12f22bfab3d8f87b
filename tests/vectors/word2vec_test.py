import sys

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.vectors import skip_gram, word2vec
from tests.vectors.texts import sentences, similarity

SETTINGS = {
    "dim": 8,
    "window": 2,
    "min_count": 2,
    "negative": 5,
    "subsample": 0.0,
    "epochs": 20,
    "seed": 13,
}


def test_words_of_equal_neighbours_are_near():
    pytest.importorskip("gensim")
    table = skip_gram(sentences(), **SETTINGS)
    assert table.vectors.shape == (14, 8)
    assert table.vectors.dtype == np.float32
    assert similarity(table, "cat", "dog") > similarity(table, "cat", "pump") + 0.1


def test_repeats_by_seed():
    pytest.importorskip("gensim")
    tables = [skip_gram(sentences(), **SETTINGS | {"seed": seed}) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(tables[0].vectors, tables[1].vectors)
    assert not np.allclose(tables[0].vectors, tables[2].vectors)


def test_all_of_a_long_sentence_is_read(monkeypatch):
    """gensim alone would drop what is behind the first 10,000 words."""
    pytest.importorskip("gensim")
    text = [["a", "b"] * 5000 + ["c", "d"] * 200]
    long = skip_gram(text, **SETTINGS | {"epochs": 1})
    monkeypatch.setattr(word2vec, "_LONGEST", 10**9)
    cut = skip_gram(text, **SETTINGS | {"epochs": 1})
    assert not np.allclose(long.vectors[long.words.index("c")], cut.vectors[cut.words.index("c")])


def test_without_gensim(monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(
        ConfigurationError, match="gensim is not installed; install it beside what is pinned here"
    ):
        skip_gram(sentences(), **SETTINGS)
