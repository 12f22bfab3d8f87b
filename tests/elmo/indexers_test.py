"""ELMo's token indexers, in the batches of AllenNLP."""

import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Instance, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import TextField

from elmo_tasks.elmo.model.characters import character_ids, unicode_ids, word_ids
from elmo_tasks.elmo.token_embedder import IdIndexer


class Lengths(IdIndexer):
    """A word's id is its length, twice."""

    name = "lengths"

    @staticmethod
    def ids(words):
        return np.array([[len(word)] * 2 for word in words], dtype=np.int16).reshape(-1, 2)


def indexed(indexer, words):
    field = TextField(list(map(Token, words)), {"elmo": indexer})
    field.index(Vocabulary())
    return field.as_tensor(field.get_padding_lengths())["elmo"][indexer.name]


@pytest.mark.parametrize(
    ("name", "ids", "dtype"),
    [
        ("character_ids", character_ids, torch.int16),
        ("unicode_ids", unicode_ids, torch.int32),
        ("word_ids", word_ids, torch.int64),
    ],
)
def test_ids_in_a_batch(name, ids, dtype):
    indexer = TokenIndexer.from_params(Params({"type": f"elmo_{name}"}))
    sentences = [["한국어", "cat"], ["Yes"]]
    batch = Batch(
        [Instance({"tokens": TextField(list(map(Token, words)), {"elmo": indexer})}) for words in sentences]
    )
    batch.index_instances(Vocabulary())
    tensor = batch.as_tensor_dict()["tokens"]["elmo"][name]
    assert tensor.dtype == dtype
    assert tensor[0].tolist() == ids(["한국어", "cat"]).tolist()
    assert tensor[1, 0].tolist() == ids(["Yes"])[0].tolist()
    assert not tensor[1, 1].any()
    assert indexed(indexer, []).shape == ids([]).shape


def test_words_to_a_padded_tensor():
    indexer = Lengths()
    ids = indexer.tokens_to_indices([Token("a"), Token("bcd")], Vocabulary())
    for length, rows in ((3, [[1, 1], [3, 3], [0, 0]]), (1, [[1, 1]])):
        padded = indexer.as_padded_tensor_dict(ids, {"lengths": length})["lengths"]
        assert torch.equal(padded, torch.tensor(rows, dtype=torch.int16))
    padded = indexer.as_padded_tensor_dict(indexer.get_empty_token_list(), {"lengths": 2})["lengths"]
    assert padded.tolist() == [[0, 0], [0, 0]]


def test_parameters():
    indexer = Lengths.from_params(Params({"token_min_padding_length": 3}))
    assert indexed(indexer, ["ab"]).tolist() == [[2, 2], [0, 0], [0, 0]]
    with pytest.raises(ConfigurationError, match="lowercase"):
        Lengths.from_params(Params({"lowercase": True}))
