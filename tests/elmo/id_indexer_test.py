import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, Vocabulary
from allennlp.data.fields import TextField

from elmo_tasks.elmo.indexers import IdIndexer


class Lengths(IdIndexer):
    """A word's id is its length, twice."""

    name = "lengths"

    @staticmethod
    def ids(words):
        return np.array([[len(word)] * 2 for word in words], dtype=np.int16).reshape(-1, 2)


def test_words_to_a_padded_tensor():
    indexer = Lengths()
    ids = indexer.tokens_to_indices([Token("a"), Token("bcd")], Vocabulary())
    for length, rows in ((3, [[1, 1], [3, 3], [0, 0]]), (1, [[1, 1]])):
        padded = indexer.as_padded_tensor_dict(ids, {"lengths": length})["lengths"]
        assert torch.equal(padded, torch.tensor(rows, dtype=torch.int16))


def test_no_words_have_ids_of_zero():
    indexer = Lengths()
    padded = indexer.as_padded_tensor_dict(indexer.get_empty_token_list(), {"lengths": 2})["lengths"]
    assert padded.tolist() == [[0, 0], [0, 0]]


def test_short_sentences_are_padded():
    indexer = Lengths.from_params(Params({"token_min_padding_length": 3}))
    field = TextField([Token("ab")], {"elmo": indexer})
    field.index(Vocabulary())
    padded = field.as_tensor(field.get_padding_lengths())["elmo"]["lengths"]
    assert padded.tolist() == [[2, 2], [0, 0], [0, 0]]


def test_a_parameter_is_an_error():
    with pytest.raises(ConfigurationError, match="unknown key 'lowercase'"):
        Lengths.from_params(Params({"lowercase": True}))
