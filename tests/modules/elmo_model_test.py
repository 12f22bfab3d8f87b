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

EMBEDDER = {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 2}}}
NER = {"type": "elmo_ner", "text_field_embedder": EMBEDDER, "hidden_sizes": [2], "dropout": 0.0}
SST = {"type": "elmo_sst", "text_field_embedder": EMBEDDER, "hidden_size": 2, "dropout": 0.0}
SST |= {"projection_size": None, "classifier_sizes": [], "classifier_dropout": 0.0}


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


def batch_of(task):
    """Returns a batch of the task's reader, with word ids only."""
    (dev,) = bundled(f"fixtures/{task}").glob("dev.*")
    reader = DatasetReader.from_params(Params({"type": f"elmo_{task}", "max_instances": 2}))
    instances = indexed(reader, reader.read(str(dev)))
    vocab = Vocabulary.from_instances(instances)
    return tensors(instances, vocab), vocab


@pytest.mark.parametrize("other", ["ner", "srl", "snli"])
def test_the_fields_of_another_reader(other):
    """The error names the reader that fits; only the name of the data may be there as well."""
    batch, vocab = batch_of("sst")
    model = Model.from_params(Params(SST).duplicate(), vocab=vocab)
    assert model(**batch, dataset=["a", "b"])["loss"].isfinite()
    with pytest.raises(ConfigurationError, match="'elmo_sst'"):
        model(**batch_of(other)[0])
    with pytest.raises(ConfigurationError, match="'elmo_sst'"):
        model(**batch, tags=None)
    with pytest.raises(ConfigurationError, match=r"labels.*'elmo_sst'"):
        Model.from_params(Params(SST).duplicate(), vocab=batch_of("squad")[1])


def test_metadata_of_another_reader():
    batch, vocab = batch_of("ner")
    model = Model.from_params(Params(NER).duplicate(), vocab=vocab)
    with pytest.raises(ConfigurationError, match="'elmo_ner'"):
        model(**batch | {"metadata": [{"words": ["a"]}, {"words": ["b"]}]})


def test_an_error_within_the_model_stays(monkeypatch):
    batch, vocab = batch_of("ner")
    model = Model.from_params(Params(NER).duplicate(), vocab=vocab)
    monkeypatch.setattr(model, "encoder", None)
    with pytest.raises(TypeError, match="NoneType"):
        model(**batch)
