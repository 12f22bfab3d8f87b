import numpy as np
import pytest
import torch

from elmo_tasks.vectors import WordTable
from elmo_tasks.vectors.static_vectors import StaticVectors
from tests.vectors.encoders import WORDS, random_vectors


def test_a_word_as_it_stands_or_in_another_case():
    """Of equal words the first."""
    words = ["the", "Cat", "CAT", "the"]
    table = np.arange(8, dtype=np.float32).reshape(4, 2) + 1
    vectors = StaticVectors(name="x", table=WordTable(words, table))
    asked = ["the", "cat", "York", "THE", "CAT"]
    found = [found.tolist() for found in vectors.encode([asked, [], ["Cat"]])]
    assert found == [[[[1, 2], [3, 4], [0, 0], [1, 2], [5, 6]]], [[]], [[[3, 4]]]]
    assert vectors.known(asked).tolist() == [True, True, False, True, True]
    assert (vectors.names, vectors.dim) == (["x"], 2)


def test_an_occurrence_is_the_mean_of_the_other_words():
    vectors = random_vectors()
    (sentence,) = vectors.encode([["the", "cat", "sat", "xyzzy"]])
    found = vectors.occurrence(sentence, 1, 2)
    assert torch.allclose(found, (sentence[:, 0] + sentence[:, 2]) / 3)
    assert vectors.occurrence(sentence[:, :1], 0, 1).tolist() == [[0.0] * 5]


def test_nearest_words():
    vectors = random_vectors()
    (table,) = next(vectors.encode([WORDS])).double().numpy()
    cosines = {
        word: table[row] @ table[2] / np.linalg.norm(table[row]) / np.linalg.norm(table[2])
        for row, word in enumerate(WORDS)
        if word != "dog"
    }
    expected = sorted(cosines, key=lambda word: -cosines[word])
    found = vectors.nearest("dog", 3)
    assert [word for word, _ in found] == expected[:3]
    assert [value for _, value in found] == pytest.approx([cosines[word] for word in expected[:3]], abs=1e-6)
    assert [word for word, _ in vectors.nearest("DOG", 100)] == expected


@pytest.mark.parametrize(("word", "neighbour"), [("a", "b"), ("b", "a"), ("B", "a")])
def test_a_word_that_stands_twice_counts_once(word, neighbour):
    table = WordTable(["a", "b", "a", "b"], np.array([[1, 0], [0, 1], [1, 0], [1, 1]], dtype=np.float32))
    found = StaticVectors(name="twice", table=table).nearest(word, 5)
    assert found == [(neighbour, pytest.approx(0))]
