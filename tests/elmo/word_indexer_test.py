import torch
from allennlp.data import Vocabulary
from allennlp.data.fields import TextField

from elmo_tasks.elmo import ElmoWordIndexer
from elmo_tasks.elmo.model.characters import word_ids
from elmo_tasks.elmo.model.encoders import WordEncoder
from tests.elmo.indexed import indexed


def test_indexer_in_a_batch():
    sentences = [["The", "cat"], ["Yes"]]
    tensor = indexed("word_ids", sentences)
    assert tensor.dtype == torch.int64
    assert torch.equal(tensor, WordEncoder.padded_ids(sentences))
    assert tensor.tolist() == [word_ids(["The", "cat"]).tolist(), [*word_ids(["Yes"]).tolist(), 0]]


def test_indexer_of_an_empty_field():
    field = TextField([], {"elmo": ElmoWordIndexer()}).empty_field()
    field.index(Vocabulary())
    assert field.as_tensor(field.get_padding_lengths())["elmo"]["word_ids"].shape == (0,)
