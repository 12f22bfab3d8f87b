import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import TokenIndexer, Vocabulary
from allennlp.data.fields import TextField

from elmo_tasks.elmo import ElmoCharacterIndexer
from elmo_tasks.elmo.model.characters import character_ids
from tests.elmo.indexed import indexed


def test_indexer_in_a_batch():
    sentences = [["The", "cat"], ["Yes"]]
    tensor = indexed("character_ids", sentences)
    assert tensor.shape == (2, 2, 50)
    assert tensor.dtype == torch.int16
    assert tensor[0].tolist() == character_ids(["The", "cat"]).tolist()
    assert not tensor[1, 1].any()


def test_indexer_of_an_empty_field():
    field = TextField([], {"elmo": ElmoCharacterIndexer()}).empty_field()
    field.index(Vocabulary())
    tensor = field.as_tensor(field.get_padding_lengths())["elmo"]["character_ids"]
    assert tensor.shape == (0, 50)


def test_unknown_key_is_named():
    with pytest.raises(ConfigurationError, match=r"ElmoCharacterIndexer: unknown key 'min_length'"):
        TokenIndexer.from_params(Params({"type": "elmo_character_ids", "min_length": 5}))
