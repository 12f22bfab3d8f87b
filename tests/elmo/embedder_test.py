import itertools

import h5py
import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError

from elmo_tasks.elmo import Elmo
from tests.elmo.files import SENTENCES, batch, make_files
from tests.elmo.numpy_reference import NumpyBiLm

PLACED = [words for words in SENTENCES if words]


@pytest.fixture
def files(tmp_path):
    options_file, weight_file = make_files(tmp_path)
    return {"options_file": str(options_file), "weight_file": str(weight_file)}


def test_shipped_model_by_default():
    elmo = Elmo()
    assert elmo(batch(SENTENCES)).input.shape == (5, 18, elmo.dim)


@pytest.mark.parametrize(
    ("placement", "places"),
    [("none", []), ("input", [0]), ("output", [1]), ("input+output", [0, 1])],
)
def test_placement(files, placement, places):
    elmo = Elmo(placement=placement, **files)
    representations = elmo(batch(SENTENCES))
    for place, dim in enumerate((elmo.input_dim, elmo.output_dim)):
        if place in places:
            assert representations[place].shape == (5, 18, 12)
            assert dim == 12
        else:
            assert representations[place] is None
            assert dim == 0


def test_input_and_output_have_a_mix_of_their_own_and_share_one_run(files, monkeypatch):
    elmo = Elmo(placement="input+output", **files)
    elmo.mixes["output"].scores.data = torch.tensor([0.0, 0.0, 9.0])
    runs, encode = [], elmo.bilm.encode
    monkeypatch.setattr(elmo.bilm, "encode", lambda *inputs: runs.append(1) or encode(*inputs))
    representations = elmo(batch(SENTENCES))
    assert runs == [1]
    assert not torch.allclose(representations.input, representations.output)


def test_mixes_the_reference_layers(files, tmp_path):
    elmo = Elmo(**files)
    elmo.mixes["input"].scores.data = torch.tensor([1.0, 0.0, -1.0])
    shares = np.exp([1.0, 0.0, -1.0]) / np.exp([1.0, 0.0, -1.0]).sum()
    reference = NumpyBiLm(tmp_path / "options.json", tmp_path / "weights.hdf5")
    mixed = elmo(batch([PLACED[0]])).input[0].detach()
    expected = np.tensordot(shares, reference(PLACED[0]), axes=1)
    np.testing.assert_allclose(mixed, expected, atol=2e-6)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_vectors_do_not_depend_on_the_batch(layer_norm):
    elmo = Elmo(layer_norm=layer_norm)
    alone = [elmo(batch([words])).input[0] for words in PLACED]
    for order in itertools.permutations(range(len(PLACED))):
        for mode in (True, False):
            together = elmo.train(mode)(batch([PLACED[i] for i in order])).input
            for row, i in enumerate(order):
                vectors = together[row, : len(PLACED[i])]
                torch.testing.assert_close(vectors, alone[i], atol=1e-6, rtol=0)


def test_the_first_batch_of_stateful_is_stateless_and_the_second_is_not(files):
    stateful, stateless = Elmo(stateful=True, **files), Elmo(**files)
    expected = stateless(batch(PLACED)).input
    torch.testing.assert_close(stateful(batch(PLACED)).input, expected)
    assert not torch.allclose(stateful(batch(PLACED)).input, expected, atol=1e-3)
    stateful.reset_state()
    torch.testing.assert_close(stateful(batch(PLACED)).input, expected)


def test_stateful_lanes_of_batches_that_shrink_and_grow(files, tmp_path):
    """A lane that a batch does not have keeps its state, and a new lane starts from zeros."""
    elmo = Elmo(stateful=True, layers="top", gamma=False, **files)
    paths = tmp_path / "options.json", tmp_path / "weights.hdf5"
    lanes = [NumpyBiLm(*paths) for _ in range(3)]
    for texts in (["a b", "c"], ["d"], ["e f g", "h", "i j"], ["k", "l"]):
        sentences = [text.split() for text in texts]
        vectors = elmo(batch(sentences)).input.detach()
        for row, words in enumerate(sentences):
            expected = lanes[row](words)[-1]
            np.testing.assert_allclose(vectors[row, : len(words)], expected, atol=1e-5)


def test_initial_state(files, tmp_path):
    with h5py.File(tmp_path / "state.hdf5", "w") as file:
        file["hidden"] = np.full((2, 2, 6), 0.5)
        file["memory"] = np.full((2, 2, 12), -0.5)
    elmo = Elmo(initial_state=str(tmp_path / "state.hdf5"), layers="top", **files)
    reference = NumpyBiLm(tmp_path / "options.json", tmp_path / "weights.hdf5")
    for key in reference.state:
        reference.state[key] = np.full(6, 0.5), np.full(12, -0.5)
    vectors = elmo(batch([PLACED[0], PLACED[1]])).input.detach()
    expected = reference(PLACED[0])[-1]
    np.testing.assert_allclose(vectors[0, : len(PLACED[0])], expected, atol=2e-6)


def test_frozen_builds_no_graph_and_trains_only_the_mix(files):
    elmo = Elmo(placement="input+output", **files)
    learned = [name for name, p in elmo.named_parameters() if p.requires_grad]
    assert sorted(learned) == [
        f"mixes.{place}.{name}" for place in ("input", "output") for name in ("gamma", "scores")
    ]
    assert not elmo.bilm.encode(batch(SENTENCES)).requires_grad
    elmo(batch(SENTENCES)).input.sum().backward()
    assert all(parameter.grad is None for parameter in elmo.bilm.parameters())


def test_trainable_reaches_every_weight(files):
    elmo = Elmo(trainable=True, **files)
    elmo(batch(SENTENCES)).input.square().sum().backward()
    assert all(parameter.grad is not None for parameter in elmo.bilm.parameters())


def test_dropout_only_in_training(files):
    elmo = Elmo(dropout=0.5, **files)
    inputs = batch([PLACED[0]])
    assert (elmo.train()(inputs).input == 0).any()
    assert not (elmo.eval()(inputs).input == 0).any()


def test_penalty(files):
    elmo = Elmo(placement="input+output", mix_l2=0.1, **files)
    elmo.mixes["input"].scores.data = torch.tensor([1.0, 2.0, 3.0])
    elmo.mixes["output"].scores.data = torch.tensor([0.0, 1.0, 0.0])
    torch.testing.assert_close(elmo.penalty(), torch.tensor(0.1 * (14 + 1)))
    elmo.penalty().backward()
    torch.testing.assert_close(elmo.mixes["input"].scores.grad, torch.tensor([0.2, 0.4, 0.6]))
    assert Elmo(**files).penalty() is None


def test_random_weights(files):
    del files["weight_file"]
    assert torch.isfinite(Elmo(weight_file=None, **files)(batch(SENTENCES)).input).all()


def test_activations_change_no_vector(files, tmp_path):
    elmo = Elmo(placement="input+output", layer_norm=True, **files)
    kept = Elmo(placement="input+output", layer_norm=True, activations=str(tmp_path / "kept"), **files)
    for _ in range(2):
        for found, expected in zip(kept(batch(SENTENCES)), elmo(batch(SENTENCES)), strict=True):
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_built_again_from_its_state_dict(files):
    elmo = Elmo(placement="output", **files)
    state = {f"elmo.{name}": tensor for name, tensor in elmo.state_dict().items()}
    block = Elmo.block_for_archive(state, "elmo.")
    assert block["activations"] is None
    again = Elmo(placement="output", **block)
    again.load_state_dict(elmo.state_dict())
    assert torch.equal(again(batch(SENTENCES)).output, elmo(batch(SENTENCES)).output)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"placement": "inputs"}, "placement is 'inputs', expected one of none, input"),
        ({"mix_l2": -1.0}, "mix_l2 is -1.0, expected 0 or more"),
        ({"stateful": True, "initial_state": "x"}, "with stateful: false"),
        ({"stateful": True, "activations": "x"}, "not with stateful: true"),
        ({"trainable": True, "activations": "x"}, "not with trainable: true"),
        ({"dropuot": 0.5}, "Elmo: unknown key 'dropuot'; did you mean 'dropout'?"),
    ],
)
def test_wrong_block(block, expected):
    with pytest.raises(ConfigurationError) as caught:
        Elmo.from_params(Params(block))
    assert expected in str(caught.value)
