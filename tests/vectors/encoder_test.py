from collections import Counter

import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.vectors import VectorTable
from elmo_tasks.vectors import encoder as module
from elmo_tasks.vectors.encoder import (
    BiLmEncoder,
    StaticVectors,
    in_contexts,
    read_mixes,
    same_weights,
    sample_occurrences,
)
from tests.elmo.files import (
    SENTENCES,
    VOCABULARY,
    batch,
    frozen,
    make_files,
    make_word_files,
    read_bilm,
    read_frozen,
    trained,
)
from tests.ner.archives import make_run
from tests.vectors.examples import random_vectors, tiny_bilm, tiny_encoder


def test_rows_are_the_layers_their_average_and_the_mixes(tmp_path, monkeypatch):
    bilm = tiny_bilm(tmp_path)
    encoder = BiLmEncoder(bilm=bilm, mixes={"double": lambda layers: 2 * layers[1]})
    assert encoder.names == ["layer 0", "layer 1", "layer 2", "average", "double"]
    assert encoder.dim == 12
    sentences = SENTENCES * 3
    for positions in (10, 1000):
        monkeypatch.setattr(module, "POSITIONS", positions)
        encoded = list(encoder.encode(iter(sentences)))
        assert len(encoded) == len(sentences)
        for words, rows in zip(sentences, encoded, strict=True):
            assert rows.shape == (5, len(words), 12)
            if words:
                # (layers, tokens, dim)
                layers = bilm.encode(batch([words]))[:, 0]
                expected = torch.stack([*layers, sum(layers) / 3, layers[1] + layers[1]])
                assert torch.allclose(rows, expected, rtol=0, atol=1e-5)


def test_known_words(tmp_path):
    words = ["cat", "xyzzy", VOCABULARY[9]]
    for bilm, known in (
        (tiny_bilm(tmp_path), [True, True, True]),
        (read_frozen(**make_word_files(tmp_path)), [True, False, True]),
    ):
        assert BiLmEncoder(bilm=bilm, mixes={}).known(words).tolist() == known


def test_a_static_word_as_it_is_spelt_or_in_another_case():
    """The first of equal words counts."""
    words = ["the", "Cat", "CAT", "the"]
    table = np.arange(8, dtype=np.float32).reshape(4, 2) + 1
    vectors = StaticVectors(name="x", table=VectorTable(words, table))
    asked = ["the", "cat", "York", "THE", "CAT"]
    encoded = [rows.tolist() for rows in vectors.encode([asked, [], ["Cat"]])]
    assert encoded == [[[[1, 2], [3, 4], [0, 0], [1, 2], [5, 6]]], [[]], [[[3, 4]]]]
    assert vectors.known(asked).tolist() == [True, True, False, True, True]
    assert (vectors.names, vectors.dim) == (["x"], 2)


def test_a_static_occurrence_is_the_mean_of_the_other_words():
    vectors = random_vectors()
    (sentence,) = vectors.encode([["the", "cat", "sat", "xyzzy"]])
    mean = vectors.occurrence(sentence, 1, 2)
    assert torch.allclose(mean, (sentence[:, 0] + sentence[:, 2]) / 3)
    assert vectors.occurrence(sentence[:, :1], 0, 1).tolist() == [[0.0] * 5]


@pytest.mark.parametrize(("word", "neighbour"), [("a", "b"), ("b", "a"), ("B", "a")])
def test_a_static_word_that_stands_twice_counts_once(word, neighbour):
    table = VectorTable(["a", "b", "a", "b"], np.array([[1, 0], [0, 1], [1, 0], [1, 1]], dtype=np.float32))
    assert StaticVectors(name="x", table=table).nearest(word, 5) == [(neighbour, pytest.approx(0))]


LINES = ["the cat saw Oslo", "", "The cat , the cat and a dog", "oslo is OSLO", "no more cat"]
ASKED = ["cat", "oslo", "Dog", "the", "absent"]


def test_averaged_over_all_occurrences(tmp_path):
    """A word as it stands, or, if it never does, in any case."""
    positions = {
        "cat": [(0, 1), (2, 1), (2, 4), (4, 2)],
        "oslo": [(3, 0)],
        "Dog": [(2, 7)],
        "the": [(0, 0), (2, 3)],
    }
    encoder = tiny_encoder(tmp_path)
    lines = list(encoder.encode(map(str.split, LINES)))
    found = in_contexts(encoder, ASKED, LINES, limit=10, seed=1)
    for row, vectors in enumerate(found):
        assert vectors.known.tolist() == [True, True, True, True, False]
        for word, vector in zip(ASKED[:4], vectors.vectors, strict=False):
            expected = [lines[line][row, position] for line, position in positions[word]]
            assert torch.allclose(vector, torch.stack(expected).mean(dim=0), rtol=0, atol=1e-6)


def test_a_limit_draws_each_occurrence_with_the_same_chance():
    lines = ["a b a", "a", "b a a"]
    drawn = Counter()
    for seed in range(2000):
        positions = sample_occurrences(lines, ["a"], limit=2, seed=seed)
        kept = [(line, position) for line, words in positions.items() for position, _ in words]
        assert len(set(kept)) == 2
        drawn.update(kept)
    assert len(drawn) == 5
    # 2000 * 2 / 5, and four standard deviations
    assert all(abs(count - 800) < 90 for count in drawn.values())


@pytest.mark.slow
def test_weights_of_layers_that_are_not_learned(tmp_path):
    """`tests/commands/results_test.py` has those that are learned."""
    (top,) = read_mixes(str(make_run(tmp_path / "top", {}, layers="top", gamma=False)))
    assert (top.shares(), top.gamma()) == ([0.0, 0.0, 1.0], 1.0)
    (drawn,) = read_mixes(str(make_run(tmp_path / "frozen", {}, weights="frozen")))
    assert sum(drawn.shares()) == pytest.approx(1)


def test_mixes_belong_to_the_same_weights(tmp_path):
    (mix,) = read_mixes(str(make_run(tmp_path / "run", {"input": [0.0, 0.0, 0.0]})))
    model = read_bilm(*make_files(tmp_path / "bilm"))
    assert same_weights(mix.bilm, frozen(model, "bfloat16"))
    assert same_weights(mix.bilm, trained(model))
    with torch.no_grad():
        model.token_encoder.projection.bias[0] += 1
    assert not same_weights(mix.bilm, frozen(model))
    assert not same_weights(mix.bilm, frozen(read_bilm(*make_files(tmp_path / "other", n_layers=1))))


@pytest.mark.parametrize("scores", [None, {}])
def test_a_model_without_mixes(tmp_path, scores):
    run = make_run(tmp_path / "run", scores, placement="none")
    with pytest.raises(ConfigurationError, match=f"^{run}: .*elmo_ner"):
        read_mixes(str(run))
