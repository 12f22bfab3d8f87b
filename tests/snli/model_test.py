import copy

import allennlp_models.pair_classification  # noqa: F401  registers `esim`
import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.data import DatasetReader
from allennlp.training.learning_rate_schedulers import LearningRateScheduler
from allennlp.training.optimizers import Optimizer

from benchmarks.configs import read_config
from benchmarks.peers import Snli
from elmo_tasks.snli import SnliModel
from tests.modules.models import build, indexed, tensors, tiny_elmo
from tests.modules.numpy_reference import array, bilstm, linear, relu, softmax

PAIRS = [
    ("Dogs run .", "Some animals are running through a wide and open field .", "entailment"),
    ("A man with a hat sleeps under the tree near the pond .", "He", "neutral"),
    ("Rain", "Sun", "contradiction"),
    ("The boy runs .", "Dogs sleep .", "contradiction"),
]


def settings(tmp_path, placement, **elmo):
    """The ELMo config with small layers and a tiny biLM, without dropout."""
    of = tiny_elmo("snli_elmo.jsonnet", tmp_path, placement, **elmo)
    of["model"] |= {"hidden_size": 5, "dropout": 0.0, "attention_dropout": 0.0}
    of["model"]["text_field_embedder"]["token_embedders"]["tokens"]["embedding_dim"] = 7
    return of


def build_pairs(of):
    """The model, and the pairs."""
    reader = DatasetReader.from_params(Params(of["dataset_reader"]))
    made = indexed(
        reader, (reader.text_to_instance(one.split(), other.split(), label) for one, other, label in PAIRS)
    )
    return build(of, made), made


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
    of = settings(tmp_path, "input+output")
    of["model"]["scaled_attention"] = scaled_attention
    model, made = build_pairs(of)
    batch = tensors(made, model.vocab)
    with torch.no_grad():
        outputs = model(**batch)
    readable = model.make_output_human_readable(outputs)
    losses = []
    for row, instance in enumerate(made):
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


@pytest.mark.parametrize("placement", ["none", "input+output"])
def test_a_pair_has_one_result_alone_and_in_any_batch(tmp_path, placement):
    model, made = build_pairs(settings(tmp_path, placement))
    with torch.no_grad():
        together = model(**tensors(made, model.vocab))
        for row, instance in enumerate(made):
            alone = model(**tensors([instance], model.vocab))
            assert torch.allclose(alone["logits"][0], together["logits"][row], rtol=0, atol=1e-5)
    # Nothing looks at padding, and padding looks at nothing.
    for name in ("premise_to_hypothesis", "hypothesis_to_premise"):
        lengths = [[len(side) for side in (instance["premise"], instance["hypothesis"])] for instance in made]
        for matrix, sides in zip(together[name], lengths, strict=True):
            rows, columns = sides if name.startswith("premise") else sides[::-1]
            assert torch.allclose(matrix.sum(dim=1)[:rows], torch.ones(rows))
            assert matrix[rows:].eq(0).all()
            assert matrix[:, columns:].eq(0).all()


@pytest.mark.parametrize(
    ("placement", "added"),
    [("none", (0, 0)), ("input", (12, 0)), ("output", (0, 12)), ("input+output", (12, 12))],
)
def test_placement_by_one_word(tmp_path, placement, added):
    model, made = build_pairs(settings(tmp_path, placement))
    assert isinstance(model, SnliModel)
    assert model.encoder.forward_layers[0].input_size == 7 + added[0]
    assert model.projection.in_features == 4 * (10 + added[1])
    model.train()(**tensors(made, model.vocab))["loss"].backward()
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert all(parameter.grad is not None for parameter in learned)


def test_elmo_runs_once_a_batch(tmp_path, monkeypatch):
    model, made = build_pairs(settings(tmp_path, "input+output"))
    rows, bilm_encode = [], model.elmo.bilm.encode
    monkeypatch.setattr(
        model.elmo.bilm, "encode", lambda ids, start: rows.append(len(ids)) or bilm_encode(ids, start)
    )
    model(**tensors(made, model.vocab))
    assert rows == [2 * len(PAIRS)]


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


def test_dropout_in_training_only(tmp_path):
    of = settings(tmp_path, "input")
    model, made = build_pairs(of)
    batch = tensors(made, model.vocab)
    expected = model(**batch)["logits"]
    for name in ("lstm_dropout", "attention_dropout", "dropout"):
        getattr(model, name).p = 0.5
        assert torch.equal(model.eval()(**batch)["logits"], expected)
        assert not torch.allclose(model.train()(**batch)["logits"], expected)
        getattr(model, name).p = 0.0


def test_learning_rate_is_halved_when_accuracy_does_not_rise(tmp_path):
    scheduler_of = settings(tmp_path, "none")["trainer"]["learning_rate_scheduler"]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.0004)
    scheduler = LearningRateScheduler.from_params(Params(scheduler_of), optimizer=optimizer)
    rates = []
    for accuracy in (0.5, 0.6, 0.6, 0.55, 0.7, 0.69):
        scheduler.step(accuracy)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [0.0004, 0.0004, 0.0002, 0.0001, 0.0001, 0.00005]


def test_it_trains_as_esim():
    """Without ELMo: from one seed the same weights, and by the same batches the same, after some updates."""
    ours = read_config(
        "snli", {"model.hidden_size": 5, "model.text_field_embedder.token_embedders.tokens.embedding_dim": 7}
    )
    peer = Snli().peer(copy.deepcopy(ours), elmo_dim=0)
    trained = []
    for config in (ours, peer):
        model, pairs = build_pairs(config)
        batch = tensors(pairs, model.vocab)
        model.train()
        parameters = [[name, parameter] for name, parameter in model.named_parameters()]
        optimizer = Optimizer.from_params(Params(config["trainer"]["optimizer"]), model_parameters=parameters)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = model(**batch)["loss"]
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        trained.append((losses, list(model.parameters())))
    (losses, weights), (losses_of_peer, weights_of_peer) = trained
    assert len(set(losses)) == 5
    assert losses == pytest.approx(losses_of_peer, rel=1e-5)
    for found, expected in zip(weights, weights_of_peer, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
