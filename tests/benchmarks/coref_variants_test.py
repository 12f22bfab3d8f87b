import pytest
import torch

from benchmarks.coref_variants import DocumentFirstWindow, DocumentLstm, FirstWindow
from elmo_tasks.coref.documents import CorefDocument
from tests.coref.tiny import Tiny


@pytest.fixture
def tiny():
    return Tiny("coref_elmo")


def changed(tiny, variant):
    tiny.model.__class__ = variant
    return tiny


def test_a_document_of_one_sentence_is_read_as_before(tiny):
    document = CorefDocument.of([["The", "old", "captain", "said", "that", "he", "was", "late"]])
    instance = tiny.instance(document)
    expected = tiny.scores(instance)
    torch.testing.assert_close(changed(tiny, DocumentLstm).scores(instance), expected)


def test_a_sentence_has_those_before_and_behind_it_as_context(tiny):
    instance = next(each for each in tiny.instances if len(each["metadata"].metadata.sentences) > 1)
    shapes = []
    tiny.model.encoder.register_forward_hook(lambda module, args, result: shapes.append(result.shape[:2]))
    changed(tiny, DocumentLstm).scores(instance)
    assert shapes == [(1, len(instance["metadata"].metadata))]


@pytest.mark.parametrize("variant", [FirstWindow, DocumentFirstWindow])
def test_training_reads_the_first_sentences(tiny, variant):
    model = changed(tiny, variant).model
    model.max_training_sentences = 2
    lengths = torch.tensor([3, 4, 5, 6])
    assert [model.train()._window(lengths).tolist() for _ in range(5)] == [[0, 1]] * 5
    assert model.eval()._window(lengths).tolist() == [0, 1, 2, 3]
