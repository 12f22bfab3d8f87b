"""Batches of sentences, and their vectors."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.embedding.batches import LAYERS, POOLS, BatchEncoder, NumberedSentence, batches_by_length
from tests.commands.texts import default_bilm, encode


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.integers(0, 12), max_size=30), tokens=st.integers(1, 40))
def test_batches_of_any_sentences(lengths, tokens):
    """Each sentence with words once, the longest first; a larger batch would not fit, a smaller one would."""
    sentences = [NumberedSentence(i, ["w"] * length) for i, length in enumerate(lengths)]
    batches = list(batches_by_length(sentences, tokens))
    together = [sentence for batch in batches for sentence in batch]
    assert sorted(sentence.number for sentence in together) == [s.number for s in sentences if s.words]
    of_batches = [[len(sentence.words) for sentence in batch] for batch in batches]
    ordered = [length for batch in of_batches for length in batch]
    assert ordered == sorted(ordered, reverse=True)
    for i, batch in enumerate(of_batches):
        assert len(batch) == 1 or len(batch) * batch[0] <= tokens
        assert i + 1 == len(of_batches) or (len(batch) + 1) * batch[0] > tokens


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_layers_and_pools(layers, pool, dtype):
    bilm, texts = default_bilm(), ["A", "The cat sat on the mat .", "", "A dog"]
    encoder = BatchEncoder(bilm=bilm, start=bilm.initial_state(1), layers=layers, pool=pool, dtype=dtype)
    vectors = encoder.vectors([NumberedSentence(n, text.split()) for n, text in enumerate(texts, 1)])
    for text, vector in zip(texts, vectors, strict=True):
        assert vector.dtype == dtype
        words = text.split()
        if not words:
            assert vector.shape == (encoder.num_layers, int(pool == "mean"), bilm.options.output_dim)
            assert not vector.any()
            continue
        expected = encode(bilm, [words])[0].numpy()[:, 0]
        if layers != "all":
            total = expected.sum(axis=0, keepdims=True)
            expected = {"top": expected[-1:], "average": total / len(expected), "sum": total}[layers]
        if pool == "mean":
            expected = expected.mean(axis=1, keepdims=True)
        assert np.allclose(vector, expected, rtol=0, atol=2e-6 if dtype == "float32" else 5e-3)


@pytest.mark.parametrize(
    ("value", "dtype", "layers", "message"),
    [
        (torch.nan, "float32", "all", "not finite"),
        (torch.nan, "float16", "top", "not finite"),
        (1e5, "float16", "all", "a value above 65,504"),
        (1e5, "float16", "top", None),
        (1e5, "float32", "all", None),
    ],
)
def test_vectors_that_cannot_be_written_name_their_line(monkeypatch, value, dtype, layers, message):
    """The values of a layer below count where they say that the weights are damaged."""
    stock = FrozenBiLm.encode

    def damaged(self, ids, start):
        vectors = stock(self, ids, start)
        vectors[1, 0, 0, 0] = value
        return vectors

    monkeypatch.setattr(FrozenBiLm, "encode", damaged)
    bilm = default_bilm()
    encoder = BatchEncoder(bilm=bilm, start=bilm.initial_state(1), layers=layers, dtype=dtype)
    window = [NumberedSentence(1, ["a"]), NumberedSentence(2, ["b", "b"])]
    if message is None:
        assert len(encoder.vectors(window)) == 2
        return
    with pytest.raises(ElmoError, match=rf"^line 2: .*{message}"):
        encoder.vectors(window)
