import torch

from elmo_tasks.elmo.model.characters import unicode_ids
from tests.elmo.indexed import indexed


def test_indexer_in_a_batch():
    sentences = [["한국어", "cat"], ["Yes"]]
    tensor = indexed("unicode_ids", sentences)
    assert tensor.dtype == torch.int32
    assert tensor[0].tolist() == unicode_ids(["한국어", "cat"]).tolist()
    assert tensor[1].tolist() == [unicode_ids(["Yes"])[0].tolist(), [0] * 50]
