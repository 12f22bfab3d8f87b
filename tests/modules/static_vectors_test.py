import numpy as np
import pytest
import torch
from allennlp.common import Params

from elmo_tasks.modules.static_vectors import StaticVectors
from elmo_tasks.vectors.files import VectorTable, write_vectors

WORDS = ["the", "river", "é😀", "Oslo"]


@pytest.fixture
def table(tmp_path):
    vectors = np.random.default_rng(13).normal(size=(4, 6)).astype(np.float32)
    write_vectors(tmp_path / "vectors.txt.gz", VectorTable(WORDS, vectors))
    return str(tmp_path / "vectors.txt.gz"), vectors


def test_the_mean_of_unit_vectors_by_rank(table):
    path, vectors = table
    static = StaticVectors.from_params(Params({"pretrained_file": path}))
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    the, river, sign = (units[rank - 1] * rank / (rank + 100) for rank in (1, 2, 3))
    # No text has the word "Oslo" in lower case.
    texts = [["The", "river", "the"], ["é😀"], ["Oslo", "unknown"], []]
    expected = [(2 * the + river) / 3, sign, 0 * the, 0 * the]
    np.testing.assert_allclose(static(texts), expected, atol=1e-4)
    assert static.vectors.dtype == torch.int8


def test_the_state_dict_has_all(table):
    static, again = StaticVectors(table[0]), StaticVectors()
    assert again([["the"], []]).shape == (2, 0)
    again.load_state_dict(static.state_dict())
    assert torch.equal(again([["the", "river"]]), static([["the", "river"]]))
