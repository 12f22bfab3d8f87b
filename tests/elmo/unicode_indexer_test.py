import torch
from allennlp.common import Params
from allennlp.data import Batch, Instance, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import TextField

from elmo_tasks.elmo.model.unicode_characters import unicode_ids


def test_indexer_in_a_batch():
    indexer = TokenIndexer.from_params(Params({"type": "elmo_unicode_ids"}))
    sentences = [["한국어", "cat"], ["Yes"]]
    batch = Batch(
        [Instance({"tokens": TextField(list(map(Token, words)), {"elmo": indexer})}) for words in sentences]
    )
    batch.index_instances(Vocabulary())
    tensor = batch.as_tensor_dict()["tokens"]["elmo"]["unicode_ids"]
    assert tensor.dtype == torch.int32
    assert tensor[0].tolist() == unicode_ids(["한국어", "cat"]).tolist()
    assert tensor[1].tolist() == [unicode_ids(["Yes"])[0].tolist(), [0] * 50]
