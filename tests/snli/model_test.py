import allennlp_models.pair_classification  # noqa: F401  registers `esim`
import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.data import DatasetReader

from tests.modules.models import build, indexed, tensors, tiny_elmo
from tests.modules.numpy_reference import array, bilstm, linear, relu, softmax

PAIRS = [
    ("Dogs run .", "Some animals are running through a wide and open field .", "entailment"),
    ("A man with a hat sleeps under the tree near the pond .", "He", "neutral"),
    ("Rain", "Sun", "contradiction"),
    ("The boy runs .", "Dogs sleep .", "contradiction"),
]


def settings(tmp_path, placement, **model):
    """The ELMo config with small layers and a tiny biLM, without dropout."""
    config = tiny_elmo("snli_elmo.jsonnet", tmp_path, placement)
    config["model"] |= {"hidden_size": 5, "dropout": 0.0, "attention_dropout": 0.0, **model}
    config["model"]["text_field_embedder"]["token_embedders"]["tokens"]["embedding_dim"] = 7
    return config


def build_pairs(config):
    """The model, and the instances of the pairs."""
    reader = DatasetReader.from_params(Params(config["dataset_reader"]))
    pairs = ((premise.split(), hypothesis.split(), label) for premise, hypothesis, label in PAIRS)
    instances = indexed(reader, (reader.text_to_instance(*pair) for pair in pairs))
    return build(config, instances), instances


def encode(model, indexed):
    """One sentence, from the indices of its tokens."""
    words = model.text_field_embedder.token_embedder_tokens.weight[indexed["tokens"]["tokens"][0]]
    elmo = model.elmo(indexed["elmo"]["character_ids"])
    at_input, at_output = (array(vectors[0]) for vectors in elmo)
    encoded = bilstm(model.encoder, np.concatenate([array(words), at_input], axis=1))
    return np.concatenate([encoded, at_output], axis=1)


def reference(model, premise, hypothesis):
    """
    Chen et al. 2017, equations (11) to (20), once more: one pair at a time, so that there is no padding, by
    NumPy. Logits and both alignments.
    """
    a, b = encode(model, premise), encode(model, hypothesis)
    energies = a @ b.T / (a.shape[1] ** 0.5 if model.scaled_attention else 1.0)
    to_b, to_a = softmax(energies), softmax(energies.T)
    pooled = []
    for own, other in ((a, to_b @ b), (b, to_a @ a)):
        enhanced = np.concatenate([own, other, own - other, own * other], axis=1)
        composed = bilstm(model.composition, relu(linear(model.projection, enhanced)))
        pooled += [composed.mean(axis=0), composed.max(axis=0)]
    hidden = relu(linear(model.hidden, np.concatenate(pooled)))
    return linear(model.output, hidden), to_b, to_a


@pytest.mark.parametrize("scaled_attention", [False, True])
def test_equals_the_paper_by_hand(tmp_path, scaled_attention):
    model, instances = build_pairs(settings(tmp_path, "input+output", scaled_attention=scaled_attention))
    batch = tensors(instances, model.vocab)
    with torch.no_grad():
        outputs = model(**batch)
    readable = model.make_output_human_readable(outputs)
    losses = []
    for row, instance in enumerate(instances):
        alone = tensors([instance], model.vocab)
        logits, to_hypothesis, to_premise = reference(model, alone["premise"], alone["hypothesis"])
        np.testing.assert_allclose(outputs["logits"][row], logits, atol=1e-5)
        np.testing.assert_allclose(readable["premise_to_hypothesis"][row], to_hypothesis, atol=1e-5)
        np.testing.assert_allclose(readable["hypothesis_to_premise"][row], to_premise, atol=1e-5)
        probabilities = softmax(logits[None])[0]
        assert list(readable["probabilities"][row].values()) == pytest.approx(probabilities, abs=1e-5)
        assert readable["label"][row] == ("entailment", "neutral", "contradiction")[logits.argmax()]
        losses.append(-np.log(probabilities[batch["label"][row]]))
    assert outputs["loss"].item() == pytest.approx(np.mean(losses), abs=1e-5)
    right = np.mean([guess == label for guess, (*_, label) in zip(readable["label"], PAIRS, strict=True)])
    assert model.get_metrics()["accuracy"] == right


def test_penalty_of_the_matrices_and_the_mixes(tmp_path):
    model, _ = build_pairs(settings(tmp_path, "input+output"))
    matrices = [
        weight
        for layer in (model.encoder, model.projection, model.composition, model.hidden, model.output)
        for weight in layer.parameters()
        if weight.dim() == 2
    ]
    assert len(matrices) == 2 * 4 + 3
    for mix in model.elmo.mixes.values():
        mix.scores.data = torch.tensor([1.0, 2.0, 3.0])
    expected = 1e-4 * sum(weight.square().sum().item() for weight in matrices) + 0.001 * 2 * 14
    assert model.get_regularization_penalty().item() == pytest.approx(expected, rel=1e-5)
