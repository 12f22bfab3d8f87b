"""`Elmo`: placements, mixes, states, precisions, callers in threads, changed weights, autocast."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from torch.func import functional_call, vmap

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo import Elmo, FrozenBiLm
from elmo_tasks.elmo.embedder import CarriedState
from tests.elmo.files import FILLING, NONEMPTY, SENTENCES, batch, changed, make_block, random_bilm, trained
from tests.elmo.numpy_reference import NumpyBiLm
from tests.errors import error_of, mentions


@pytest.fixture
def filling(tmp_path):
    return make_block(tmp_path, **FILLING)


def test_input_and_output_have_a_mix_of_their_own_and_share_one_run(files, monkeypatch):
    elmo = Elmo(placement="input+output", **files)
    elmo.mixes["output"].scores.data = torch.tensor([0.0, 0.0, 9.0])
    runs, encode = [], elmo.bilm.encode
    monkeypatch.setattr(elmo.bilm, "encode", lambda *inputs: runs.append(1) or encode(*inputs))
    representations = elmo(batch(SENTENCES))
    assert runs == [1]
    assert not torch.allclose(representations.input, representations.output)


def test_frozen_and_unfrozen_at_any_time(files):
    elmo = Elmo(**files).eval()
    frozen_vectors, state = elmo(batch(NONEMPTY)).input, elmo.state_dict()
    assert elmo.requires_grad_(False).bilm.requires_grad_(False) is elmo.bilm
    with pytest.raises(ElmoError, match=r"requires_grad_\(True\).*biLM"):
        elmo.bilm.requires_grad_(True)
    names = list(state)
    assert elmo.requires_grad_(True) is elmo
    vectors = elmo(batch(NONEMPTY)).input
    torch.testing.assert_close(vectors, frozen_vectors)
    vectors.sum().backward()
    assert all(weight.grad is not None for weight in elmo.bilm.parameters())
    assert not elmo.bilm.training
    assert list(elmo.state_dict()) == names
    Elmo(**files).load_state_dict(elmo.state_dict())
    elmo.bilm.requires_grad_(False)
    torch.testing.assert_close(elmo(batch(NONEMPTY)).input, frozen_vectors, atol=0, rtol=0)
    with pytest.raises(ElmoError, match=r"precision: bfloat16"):
        Elmo(precision="bfloat16", **files).requires_grad_(True)


def test_a_hook_on_a_frozen_bilm_runs(files):
    elmo = Elmo(**files)
    expected = elmo(batch(NONEMPTY)).input
    elmo.bilm.register_forward_hook(lambda _, __, outputs: (2 * outputs[0], outputs[1]))
    torch.testing.assert_close(elmo(batch(NONEMPTY)).input, 2 * expected)


def test_stateful_lanes_of_batches_that_shrink_and_grow(files):
    """A lane that is missing from a batch keeps its state, and a new lane starts from zeros."""
    elmo = Elmo(stateful=True, layers="top", gamma=False, **files)
    lanes = [NumpyBiLm(**files) for _ in range(3)]
    for texts in (["a b", "c"], ["d"], ["e f g", "h", "i j"], ["k", "l"]):
        sentences = [text.split() for text in texts]
        vectors = elmo(batch(sentences)).input.detach()
        for row, words in enumerate(sentences):
            expected = lanes[row](words)[-1]
            np.testing.assert_allclose(vectors[row, : len(words)], expected, atol=1e-5)


def test_initial_state(files, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "state.hdf5", "w") as file:
        file["hidden"] = np.full((2, 2, 6), 0.5)
        file["memory"] = np.full((2, 2, 12), -0.5)
    elmo = Elmo(initial_state=str(tmp_path / "state.hdf5"), layers="top", **files)
    reference = NumpyBiLm(**files)
    for key in reference.state:
        reference.state[key] = np.full(6, 0.5), np.full(12, -0.5)
    vectors = elmo(batch([NONEMPTY[0], NONEMPTY[1]])).input.detach()
    expected = reference(NONEMPTY[0])[-1]
    np.testing.assert_allclose(vectors[0, : len(NONEMPTY[0])], expected, atol=2e-6)


def test_the_penalty_is_that_of_the_weights_of_all_mixes(files):
    elmo = Elmo(placement="input+output", mix_l2=0.1, **files)
    elmo.mixes["input"].scores.data = torch.tensor([1.0, 2.0, 3.0])
    elmo.mixes["output"].scores.data = torch.tensor([0.0, 1.0, 0.0])
    torch.testing.assert_close(elmo.penalty(), torch.tensor(0.1 * (14 + 1)))
    elmo.penalty().backward()
    torch.testing.assert_close(elmo.mixes["input"].scores.grad, torch.tensor([0.2, 0.4, 0.6]))
    assert Elmo(**files).penalty() is None


@pytest.mark.parametrize("trainable", [False, True])
def test_random_weights(files, caplog, trainable):
    elmo = Elmo(**files | {"weight_file": None}, trainable=trainable)
    assert torch.isfinite(elmo(batch(SENTENCES)).input).all()
    assert ("weight_file" in caplog.text) is not trainable


def test_built_again_from_its_state_dict(files):
    elmo = Elmo(placement="output", **files)
    state = {f"elmo.{name}": tensor for name, tensor in elmo.state_dict().items()}
    block = Elmo.block_for_archive(state, "elmo.")
    assert block["activations"] is None
    again = Elmo(placement="output", **block)
    again.load_state_dict(elmo.state_dict())
    assert torch.equal(again(batch(SENTENCES)).output, elmo(batch(SENTENCES)).output)


@pytest.mark.parametrize("trainable", [False, True])
def test_state_dict_of_a_bilm_with_other_options(files, trainable):
    """The weights have the same shapes, and the options have as many bytes."""
    options = changed(activation="tanh", cell_clip=2)
    theirs = Elmo(options_file=options, weight_file=files["weight_file"])
    ours = Elmo(trainable=trainable, **files)
    message = error_of(RuntimeError, ours.load_state_dict, theirs.state_dict())
    for section, found, expected in (
        ("lstm", "'cell_clip': 2.0", "'cell_clip': 3.0"),
        ("char_cnn", "'activation': 'tanh'", "'activation': 'relu'"),
    ):
        assert mentions(message, f"options: {section} ", found, expected)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"placement": "none", "mix_l2": 0.1}, "mix_l2"),
        ({"layers": "top", "mix_l2": 0.1}, "mix_l2"),
        ({"weights": "frozen", "mix_l2": 0.1}, "mix_l2"),
        ({"layers": "top", "weights": "function"}, "`weights` requires `layers: all`"),
        ({"stateful": True, "initial_state": "x"}, "`initial_state` requires `stateful: false`"),
        ({"stateful": True, "activations": "x"}, "`activations` requires `stateful: false`"),
        ({"trainable": True, "activations": "x"}, "`activations` requires `trainable: false`"),
        ({"precision": "bfloat16", "trainable": True}, "precision: bfloat16"),
    ],
)
def test_wrong_block(block, expected):
    assert expected in error_of(ConfigurationError, Elmo.from_params, Params(block))


def test_files_that_belong_together(files, tmp_path):
    for alone in ("options_file", "weight_file"):
        with pytest.raises(ElmoError, match=r"options_file.*weight_file"):
            Elmo(**{alone: str(files[alone])})
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Elmo(weight_file=str(tmp_path / "nowhere"))
    assert Elmo(options_file=str(files["options_file"]), weight_file=None).bilm is not None


@pytest.mark.parametrize("trainable", [False, True])
def test_ids_of_sentences(files, trainable):
    elmo = Elmo(**files, trainable=trainable)
    assert elmo.padded_ids([]).shape == (0, 0, 50)
    assert elmo.padded_ids([[], []]).shape == (2, 0, 50)
    assert torch.equal(elmo.padded_ids(iter([iter(["A", "cat"])])), elmo.padded_ids([["A", "cat"]]))
    for wrong in ("A cat", [1], None):
        with pytest.raises(ElmoError, match=r"sentence 1: "):
            elmo.padded_ids([["fine"], wrong])
    with pytest.raises(ElmoError, match="placement: none"):
        Elmo(placement="none").padded_ids([["fine"]])


def test_two_callers_of_a_stateful_elmo_are_an_error(files, monkeypatch):
    elmo, other = Elmo(stateful=True, **files), Elmo(stateful=True, **files)
    inside, go_on = threading.Event(), threading.Event()
    forward = FrozenBiLm.forward

    def slow(self, *inputs):
        inside.set()
        assert go_on.wait(timeout=60)
        return forward(self, *inputs)

    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(FrozenBiLm, "forward", slow)
        first = pool.submit(elmo, batch(NONEMPTY))
        assert inside.wait(timeout=60)
        with pytest.raises(ElmoError, match="stateful: true"):
            elmo(batch(NONEMPTY))
        go_on.set()
        found = [first.result().input]
    # The refused call has changed nothing, and the next one is taken.
    found.append(elmo(batch(NONEMPTY)).input)
    assert all(torch.equal(vectors, other(batch(NONEMPTY)).input) for vectors in found)


def test_no_graph_is_carried():
    model = trained(random_bilm())
    carried = CarriedState()
    for sentences in (NONEMPTY, NONEMPTY[:1], NONEMPTY[1:3], NONEMPTY * 2):
        layers = carried.encode(model, batch(sentences), model.initial_state(1))
        # Otherwise the second would go through the freed graph of the first.
        layers.square().sum().backward()


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda elmo: pickle.loads(pickle.dumps(elmo))])
def test_a_copy_has_weights_and_a_state_of_its_own(filling, trainable, stateful, copied):
    elmo = Elmo(trainable=trainable, stateful=stateful, **filling).eval()
    with torch.no_grad():
        elmo(batch(NONEMPTY))
        other = copied(elmo)
        # With its state, if it carries one
        assert torch.equal(other(batch(NONEMPTY)).input, elmo(batch(NONEMPTY)).input)
        for text in (elmo, other):
            text.reset_state()
        expected = elmo(batch(NONEMPTY)).input
        state = other.state_dict()
        halved = {name: weight / 2 for name, weight in state.items() if weight.is_floating_point()}
        other.load_state_dict(state | halved)
        assert not torch.allclose(other(batch(NONEMPTY)).input, expected, atol=1e-3)
        elmo.reset_state()
        assert torch.equal(elmo(batch(NONEMPTY)).input, expected)


@pytest.mark.parametrize("trainable", [False, True])
def test_compiled(files, trainable):
    elmo = Elmo(trainable=trainable, **files)
    compiled = torch.compile(lambda ids: 2 * elmo(ids).input, backend="eager")
    for sentences in (SENTENCES, SENTENCES[:2]):
        assert torch.equal(compiled(batch(sentences)), 2 * elmo(batch(sentences)).input)


@pytest.mark.parametrize("trainable", [False, True])
def test_transforms_of_functions(files, trainable):
    elmo = Elmo(trainable=trainable, **files)
    weights, ids = dict(elmo.named_parameters()), batch(NONEMPTY)

    def loss(weights, ids):
        return functional_call(elmo, weights, ids).input.square().sum()

    expected = torch.autograd.grad(loss(weights, ids), list(weights.values()))
    for found in (
        torch.func.grad(loss)(weights, ids).values(),
        # The gradients of each sentence
        (each.sum(0) for each in vmap(torch.func.grad(loss), (None, 0))(weights, ids.unsqueeze(1)).values()),
    ):
        torch.testing.assert_close(list(found), list(expected), atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_exported(files):
    """A frozen biLM says what to do."""
    elmo = Elmo(**files).eval()
    expected = elmo(batch(NONEMPTY)).input
    shapes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")},)
    with pytest.raises(ElmoError, match="requires_grad_"):
        torch.export.export(elmo, (batch(NONEMPTY),), strict=False)
    ids = (batch(NONEMPTY[:2]),)
    with pytest.raises(ElmoError, match=r"torch\.export"):
        torch.jit.trace(elmo, ids)
    program = torch.export.export(elmo.requires_grad_(True), ids, dynamic_shapes=shapes, strict=False)
    torch.testing.assert_close(program.module()(batch(NONEMPTY)).input, expected)


@pytest.mark.parametrize("trainable", [False, True])
def test_on_the_device_meta(files, trainable):
    elmo = Elmo(trainable=trainable, **files).eval()
    expected, state = elmo(batch(NONEMPTY)).input, elmo.state_dict()
    elmo = copy.deepcopy(elmo).to("meta")
    elmo.to_empty(device="cpu").load_state_dict(state)
    assert torch.equal(elmo(batch(NONEMPTY)).input, expected)


@pytest.mark.parametrize("block", [{}, {"stateful": True}, {"layer_norm": True}, {"weights": "function"}])
def test_a_frozen_one_under_autocast(filling, block):
    elmo = Elmo(**block, **filling).eval()
    expected = elmo(batch(SENTENCES)).input
    cold = Elmo(**block, **filling).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = cold(batch(SENTENCES)).input
    assert torch.equal(found, expected)
    cold.reset_state()
    assert torch.equal(cold(batch(SENTENCES)).input, expected)


@pytest.mark.parametrize("stateful", [False, True])
def test_lists_of_sentences(files, stateful):
    """Ids of four dimensions: batch, entities, tokens, 50."""
    elmo = Elmo(**files, stateful=stateful, placement="input+output")
    ids = elmo.padded_ids([["The", "cat"], [], ["Yes"], ["on", "the", "mat"]])
    expected = elmo(ids)
    elmo.reset_state()
    found = elmo(ids.view(2, 2, 3, 50))
    for representation in ("input", "output"):
        assert torch.equal(
            getattr(found, representation), getattr(expected, representation).view(2, 2, 3, elmo.dim)
        )


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda ids: [["The", "cat"]], ["list", "padded_ids"]),
        (lambda ids: ids + 300, ["0 to 261"]),
        (lambda ids: ids - 1, ["-1", "0 to 261"]),
        (lambda ids: ids[0], ["(2, 50)", "50"]),
        (lambda ids: ids.float(), ["float32", "int16"]),
    ],
)
def test_what_are_no_ids(files, trainable, change, names):
    elmo = Elmo(**files, trainable=trainable)
    assert mentions(error_of(ElmoError, elmo, change(elmo.padded_ids([["The", "cat"], ["Yes"]]))), *names)
