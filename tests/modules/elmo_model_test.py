import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.modules.text_field_embedders import BasicTextFieldEmbedder
from allennlp.modules.token_embedders import Embedding
from allennlp.predictors import Predictor

from elmo_tasks.common.files import bundled
from elmo_tasks.modules.elmo_model import ElmoModel
from elmo_tasks.pipeline.explanations import Explainer
from tests.modules.models import build, indexed, tensors, tiny_elmo


def test_labels_that_come_later():
    """The model has no score for them."""
    embedder = BasicTextFieldEmbedder({"tokens": Embedding(embedding_dim=2, num_embeddings=3)})
    vocab = Vocabulary()
    vocab.add_token_to_namespace("PER", "labels")
    model = ElmoModel(vocab=vocab, text_field_embedder=embedder)
    vocab.add_token_to_namespace("word", "tokens")
    model.extend_embedder_vocab()
    vocab.add_token_to_namespace("LOC", "labels")
    with pytest.raises(ConfigurationError, match="'LOC'"):
        model.extend_embedder_vocab()


def test_elmo_as_the_only_input(tmp_path):
    settings = tiny_elmo("ner_elmo.jsonnet", tmp_path, "input")
    settings["dataset_reader"]["token_indexers"] = {"elmo": {"type": "elmo_character_ids"}}
    settings["model"]["text_field_embedder"] = {"token_embedders": {}}
    reader = DatasetReader.from_params(Params(settings["dataset_reader"]))
    instances = indexed(reader, reader.read(bundled("fixtures/ner/dev.conll")))[:3]
    model = build(settings, instances)
    batch = tensors(instances, model.vocab)
    vectors, elmo = model.embed(batch["tokens"])
    assert model.input_dim == model.elmo.input_dim
    assert torch.equal(vectors, elmo.input)
    model(**batch)["loss"].backward()
    predictor = Predictor.by_name(model.default_predictor)(model, reader)
    gradients = []
    for predictor.gradients.through_elmo in (False, True):
        explained = Explainer(predictor)({"tokens": ["Ana", "flew"]})
        gradients.append([sum(text["shares"]) for texts in explained["explanations"] for text in texts])
    assert len(gradients[0]) == len(gradients[1])
    assert [*gradients[0], *gradients[1]] == pytest.approx([1.0] * 2 * len(gradients[0]))


@pytest.mark.parametrize("placement", ["none", "output"])
def test_no_input(tmp_path, placement):
    settings = tiny_elmo("ner_elmo.jsonnet", tmp_path, placement)
    settings["model"]["text_field_embedder"] = {"token_embedders": {}}
    with pytest.raises(ConfigurationError, match="text_field_embedder"):
        Model.from_params(Params(settings["model"]), vocab=Vocabulary())
