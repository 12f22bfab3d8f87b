import json

import numpy as np
import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.data import DatasetReader

from elmo_tasks.common.files import bundled
from elmo_tasks.sst.model import Maxout
from tests.modules.models import build, indexed, tensors, tiny_elmo
from tests.modules.numpy_reference import array, bilstm, linear, relu, softmax

SENTENCES = [
    ("A warm and funny film that stays with you .", "4"),
    ("Dull .", "1"),
    ("It runs for two hours .", "2"),
    ("Good , but far too long for what it has to say in the end .", "2"),
    ("No", "0"),
]


def settings(tmp_path, placement, **model):
    """The ELMo config with small layers and a tiny biLM, without dropout."""
    config = tiny_elmo("sst_elmo.jsonnet", tmp_path, placement)
    config["model"] |= {"projection_size": 6, "hidden_size": 5, "classifier_sizes": [7, 4]}
    config["model"] |= {"dropout": 0.0, "classifier_dropout": 0.0, **model}
    config["model"]["text_field_embedder"]["token_embedders"]["tokens"]["embedding_dim"] = 3
    return config


def instances_of(reader):
    return indexed(reader, (reader.text_to_instance(text.split(), label) for text, label in SENTENCES))


def build_sentences(config):
    """The model, and the instances of the sentences."""
    instances = instances_of(DatasetReader.from_params(Params(config["dataset_reader"])))
    return build(config, instances), instances


def reference(model, tokens):
    """McCann et al. 2017, section 5, of one sentence: logits and the weights of the pooling."""
    x = array(model.text_field_embedder.token_embedder_tokens.weight[tokens["tokens"]["tokens"][0]])
    at_input, at_output = (array(vectors[0]) for vectors in model.elmo(tokens["elmo"]["character_ids"]))
    projected = relu(linear(model.projection[1], np.concatenate([x, at_input], axis=1)))
    encoded = bilstm(model.encoder, projected)
    if model.output_elmo == "encoder":
        encoded = np.concatenate([encoded, at_output], axis=1)
    scale = encoded.shape[1] ** 0.5 if model.scaled_attention else 1.0
    context = softmax(encoded @ encoded.T / scale) @ encoded
    read = np.concatenate([encoded, encoded - context, encoded * context], axis=1)
    integrated = bilstm(model.integrator, read)
    if model.output_elmo == "integrator":
        integrated = np.concatenate([integrated, at_output], axis=1)
    weights = softmax(linear(model.pooling, integrated)[:, 0])
    pooled = [integrated.max(axis=0), integrated.mean(axis=0), integrated.min(axis=0), weights @ integrated]
    first, second, last = (layer for layer in model.classifier if isinstance(layer, torch.nn.Linear))
    hidden = relu(linear(second, relu(linear(first, np.concatenate(pooled)))))
    return linear(last, hidden), weights


@pytest.mark.parametrize("scaled_attention", [False, True])
@pytest.mark.parametrize("output_elmo", ["encoder", "integrator"])
def test_equals_the_paper_by_hand(tmp_path, output_elmo, scaled_attention):
    changes = {"output_elmo": output_elmo, "scaled_attention": scaled_attention}
    model, instances = build_sentences(settings(tmp_path, "input+output", **changes))
    batch = tensors(instances, model.vocab)
    with torch.no_grad():
        outputs = model(**batch)
    readable = model.make_output_human_readable(outputs)
    losses = []
    for row, (text, label) in enumerate(SENTENCES):
        logits, weights = reference(model, tensors([instances[row]], model.vocab)["tokens"])
        np.testing.assert_allclose(outputs["logits"][row], logits, atol=1e-5)
        probabilities = softmax(logits)
        losses.append(-np.log(probabilities[int(label)]))
        assert readable["tokens"][row] == text.split()
        assert readable["attention"][row] == pytest.approx(weights, abs=1e-5)
        assert readable["label"][row] == str(logits.argmax())
        assert readable["probabilities"][row] == pytest.approx(
            dict(zip("01234", probabilities, strict=True)), abs=1e-5
        )
    assert outputs["loss"].item() == pytest.approx(np.mean(losses), abs=1e-5)
    right = np.mean([guess == label for guess, (_, label) in zip(readable["label"], SENTENCES, strict=True)])
    assert model.get_metrics(reset=True)["accuracy"] == right


def test_maxout_with_batch_normalisation(tmp_path):
    model, instances = build_sentences(settings(tmp_path, "input", maxout=3))
    layers = [layer for layer in model.classifier if isinstance(layer, Maxout)]
    assert [layer.linear.out_features for layer in layers] == [3 * 7, 3 * 4]
    layer, inputs = layers[1], torch.randn(6, 7)
    units = linear(layer.linear, array(inputs)).reshape(6, 4, 3).max(axis=2)
    normalised = (units - units.mean(axis=0)) / np.sqrt(units.var(axis=0) + layer.norm.eps)
    expected = normalised * array(layer.norm.weight) + array(layer.norm.bias)
    np.testing.assert_allclose(layer.train()(inputs).detach(), expected, atol=1e-5)
    # A last batch of one sentence has no variance.
    assert model.train()(**tensors(instances[:1], model.vocab))["loss"].isfinite()
    assert torch.equal(layer.train()(inputs[:1]), layer.eval()(inputs[:1]))


def test_maxout_is_trained(tmp_path):
    """AllenNLP refuses a bias right before a normalisation; and archives have the weights by these names."""
    small = {"model.maxout": 2, "model.hidden_size": 4, "model.classifier_sizes": [6, 5]}
    small |= {"model.text_field_embedder.token_embedders.tokens.embedding_dim": 4}
    small |= {"trainer.num_epochs": 1, "dataset_reader.max_instances": 16}
    params = Params.from_file(str(bundled("training_configs/sst.jsonnet")), json.dumps(small))
    model = train_model(params, str(tmp_path / "run"))
    layer = next(layer for layer in model.classifier if isinstance(layer, Maxout))
    of_norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    names = {"linear.weight", "linear.bias", *(f"norm.{name}" for name in of_norm)}
    assert set(layer.state_dict()) == names
