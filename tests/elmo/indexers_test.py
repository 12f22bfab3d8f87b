"""ELMo's token indexers, in the batches of AllenNLP."""

import pytest
import torch
from allennlp.common import Params
from allennlp.data import Batch, Instance, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import TextField

from elmo_tasks.elmo.model.characters import character_ids, unicode_ids, word_ids


def indexed(indexer, words):
    """Returns the ids of one sentence."""
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
    padded = TokenIndexer.from_params(Params({"type": f"elmo_{name}", "token_min_padding_length": 3}))
    assert len(indexed(padded, ["cat"])) == 3
