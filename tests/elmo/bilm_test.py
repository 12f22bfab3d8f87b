import resource
import sys

import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries

from elmo_tasks.elmo import BiLm, BiLmOptions, frozen_lstm, lstm
from elmo_tasks.elmo import bilm as module
from elmo_tasks.elmo.linear import FrozenLinear
from tests.elmo.files import SENTENCES, batch, changed, make_files
from tests.elmo.numpy_reference import NumpyBiLm

VARIANTS = [
    {},
    {"activation": "tanh", "n_highway": 1, "use_skip_connections": False},
    {"n_layers": 1, "cell_clip": 0, "proj_clip": 0},
    {"n_layers": 3, "n_highway": 0},
    # No projections at all, as bilm-tf leaves them out where the sizes agree
    {"dim": 18, "projection_dim": 18},
]


@pytest.mark.parametrize("changes", VARIANTS)
def test_equals_the_step_by_step_reference(tmp_path, changes):
    files = make_files(tmp_path, **changes)
    bilm, reference = BiLm.read(*files).double(), NumpyBiLm(*files)
    layers, _ = bilm(batch(SENTENCES))
    for row, words in enumerate(SENTENCES):
        reference.reset()
        if words:
            np.testing.assert_allclose(layers[:, row, : len(words)].detach(), reference(words), atol=1e-6)
        assert not layers[:, row, len(words) :].any()


def test_reaches_the_bounds(tmp_path):
    """Else the comparison above would not see them."""
    bounded, free = (
        BiLm.read(*make_files(tmp_path / name, cell_clip=clip, proj_clip=clip))
        for name, clip in (("bounded", 3), ("free", 0))
    )
    assert not torch.allclose(bounded(batch(SENTENCES))[0], free(batch(SENTENCES))[0], atol=1e-2)


def test_carries_the_state_like_the_original(tmp_path):
    files = make_files(tmp_path)
    bilm, lanes = BiLm.read(*files), [NumpyBiLm(*files) for _ in range(2)]
    state = None
    for sentences in ([["a", "b", "c"], ["d"]], [["e"], ["f", "g"]], [["h", "i"], ["j"]]):
        layers, state = bilm(batch(sentences), state)
        for row, (words, lane) in enumerate(zip(sentences, lanes, strict=True)):
            np.testing.assert_allclose(layers[:, row, : len(words)].detach(), lane(words), atol=1e-5)


def test_equals_allennlp_in_all_layers(tmp_path):
    files = make_files(tmp_path)
    ours, theirs = BiLm.read(*files).double(), _ElmoBiLm(*map(str, files)).double()
    state = None
    for sentences in (SENTENCES[:2], SENTENCES[3:], SENTENCES[1:2] + SENTENCES[4:]):
        layers, state = ours(batch(sentences), state)
        outputs = theirs(batch_to_ids(sentences))
        for ours_layer, theirs_layer in zip(layers, outputs["activations"], strict=True):
            without_borders, _ = remove_sentence_boundaries(theirs_layer, outputs["mask"])
            torch.testing.assert_close(ours_layer, without_borders, atol=1e-12, rtol=1e-12)


def test_state_of_a_row_without_tokens_stays(tmp_path):
    bilm = BiLm.read(*make_files(tmp_path))
    _, before = bilm(batch([["a"], ["b", "c"]]))
    _, after = bilm(batch([["d"], []]), before)
    assert torch.equal(after.hidden[:, :, 1], before.hidden[:, :, 1])
    assert not torch.equal(after.hidden[:, :, 0], before.hidden[:, :, 0])


def test_batch_without_any_token(tmp_path):
    bilm = BiLm.read(*make_files(tmp_path))
    layers, state = bilm(torch.zeros(2, 3, 50, dtype=torch.int16))
    assert layers.shape == (3, 2, 3, 12)
    assert not layers.any()
    assert not state.hidden.any()


# Each sentence on its own


@pytest.fixture
def frozen(tmp_path):
    """Of sizes that fill a processor's vectors; in others the last bit may depend on the batch."""
    filters = [[1, 32], [2, 32], [5, 64]]
    return BiLm.read(*make_files(tmp_path, dim=64, projection_dim=32, filters=filters)).requires_grad_(False)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("changes", VARIANTS)
def test_a_sentence_on_its_own_is_one_after_a_fresh_start(tmp_path, changes, trainable):
    bilm = BiLm.read(*make_files(tmp_path, **changes)).requires_grad_(trainable)
    alone, (after_nothing, _) = bilm.encode(batch(SENTENCES)), bilm(batch(SENTENCES))
    torch.testing.assert_close(alone, after_nothing, atol=2e-6, rtol=1e-5)
    assert alone.requires_grad == trainable


def test_starts_where_it_is_told_to(frozen):
    _, state = frozen(batch([["so", "it", "begins"]]))
    for sentence in (SENTENCES[0], SENTENCES[3]):
        expected, _ = frozen(batch([sentence]), state)
        assert torch.equal(frozen.encode(batch([sentence]), state), expected)
    assert not torch.equal(frozen.encode(batch([["Yes"]])), frozen.encode(batch([["Yes"]]), state))


@pytest.mark.parametrize("paired", [True, False])
def test_not_a_bit_depends_on_the_batch(frozen, monkeypatch, two_threads, paired):
    monkeypatch.setattr(lstm, "LARGEST_PAIRED", (1 << 20) * paired)
    together = frozen.encode(batch(SENTENCES))
    for row, words in enumerate(SENTENCES):
        frozen.forget_words()
        if words:
            assert torch.equal(frozen.encode(batch([words]))[:, 0], together[:, row, : len(words)])
    monkeypatch.setattr(module, "TOKENS_AT_ONCE", 8)
    assert torch.equal(frozen.encode(batch(SENTENCES)), together)
    torch.set_num_threads(1)
    assert torch.equal(frozen.encode(batch(SENTENCES)), together)


def test_a_lone_sentence_with_large_weights():
    torch.manual_seed(3)
    options = BiLmOptions.read(changed(dim=1024, projection_dim=128))
    bilm = BiLm(options=options).requires_grad_(False)
    assert frozen_lstm.LARGEST_END_TO_END < 4 * 1024 * 128 <= lstm.LARGEST_PAIRED
    together = bilm.encode(batch(SENTENCES))
    for row, words in enumerate(SENTENCES):
        if words:
            alone = bilm.encode(batch([words]))[:, 0]
            torch.testing.assert_close(alone, together[:, row, : len(words)], atol=1e-6, rtol=0)


def test_state_of_a_batch_in_parts(frozen, monkeypatch):
    _, before = frozen(batch(SENTENCES))
    expected, after = frozen(batch(SENTENCES[::-1]), before)
    monkeypatch.setattr(module, "TOKENS_AT_ONCE", 8)
    layers, state = frozen(batch(SENTENCES[::-1]), before)
    assert torch.equal(layers, expected)
    assert all(torch.equal(*parts) for parts in zip(state, after, strict=True))


def test_changed_weights_are_noticed(frozen):
    before = frozen.encode(batch(SENTENCES))
    with torch.no_grad():
        for parameter in frozen.parameters():
            parameter.mul_(0.5)
    after = frozen.encode(batch(SENTENCES))
    assert not torch.allclose(before, after, atol=1e-3)
    frozen.load_state_dict({name: 2 * value for name, value in frozen.state_dict().items()})
    assert torch.equal(frozen.encode(batch(SENTENCES)), before)
    assert torch.equal(frozen.double().float().encode(batch(SENTENCES)), before)


def test_inference_mode_leaves_nothing_unusable_behind(frozen):
    with torch.inference_mode():
        expected = frozen.encode(batch(SENTENCES[:2]))
    mixed = frozen.encode(batch(SENTENCES)) * torch.ones(1, requires_grad=True)
    mixed.sum().backward()
    assert torch.equal(mixed[:, :2, :7].detach(), expected)


def test_a_sentence_of_20000_tokens(tmp_path):
    bilm = BiLm.read(*make_files(tmp_path)).requires_grad_(False)
    words = [f"w{number % 500}" for number in range(20_000)]
    layers = bilm.encode(batch([words]))
    assert layers.shape == (3, 1, 20_000, 12)
    # What is far away has no weight: each direction by itself
    forward, backward = (layers[-1, 0, :, :6], layers[-1, 0, :, 6:])
    torch.testing.assert_close(bilm.encode(batch([words[:300]]))[-1, 0, :, :6], forward[:300])
    torch.testing.assert_close(bilm.encode(batch([words[-300:]]))[-1, 0, :, 6:], backward[-300:])


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere")
def test_memory_beside_the_result_does_not_grow_with_the_batch():
    options = BiLmOptions.read(changed(dim=2048, projection_dim=8))
    bilm = BiLm(options=options).requires_grad_(False)
    sentence = [f"w{number}" for number in range(25)]
    bilm.encode(batch([sentence] * 80))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bilm.encode(batch([sentence] * 1600))
    # 40,000 tokens: all gates at once would take 1.3 GB, the result takes 8 MB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.parametrize(("precision", "tolerance"), [("bfloat16", 0.1), ("int8", 0.3)])
def test_lower_precision_is_near(tmp_path, precision, tolerance):
    options = BiLmOptions.read(changed(dim=64, projection_dim=32))
    torch.manual_seed(1)
    exact = BiLm(options=options).requires_grad_(False)
    other = BiLm(options=options, precision=precision).requires_grad_(False)
    other.load_state_dict(exact.state_dict())
    difference = (exact.encode(batch(SENTENCES)) - other.encode(batch(SENTENCES))).abs().max()
    assert 0 < difference < tolerance
    assert exact.digest() != other.digest()


def test_unknown_precision():
    with pytest.raises(
        ConfigurationError, match="precision is 'float16', expected one of float32, bfloat16, int8"
    ):
        BiLm(options=BiLmOptions.read(changed()), precision="float16")


# Trained


def allennlp_gradients(theirs):
    """By our names; AllenNLP's highway gate is what is let through, ours what is carried over."""
    characters, found = theirs._token_embedder, {}
    found["embedding"] = characters._char_embedding_weights.grad
    for i, cnn in enumerate(characters._convolutions):
        found[f"convolutions.{i}.weight"], found[f"convolutions.{i}.bias"] = cnn.weight.grad, cnn.bias.grad
    for i, highway in enumerate(characters._highways._layers):
        for kind in ("weight", "bias"):
            transform, gate = getattr(highway, kind).grad.chunk(2)
            found[f"highways.{i}.transform.{kind}"], found[f"highways.{i}.carry.{kind}"] = transform, -gate
    for kind in ("weight", "bias"):
        found[f"projection.{kind}"] = getattr(characters._projection, kind).grad
    found = {f"token_encoder.{name}": gradient for name, gradient in found.items()}
    for direction, stack in enumerate(("forward", "backward")):
        for layer in range(2):
            cell, ours = (
                getattr(theirs._elmo_lstm, f"{stack}_layer_{layer}"),
                f"lstm.directions.{direction}.{layer}",
            )
            halves = cell.input_linearity.weight.grad, cell.state_linearity.weight.grad
            found[f"{ours}.weight"] = torch.cat(halves, dim=1)
            found[f"{ours}.bias"] = cell.state_linearity.bias.grad
            found[f"{ours}.projection"] = cell.state_projection.weight.grad
    return found


@pytest.mark.parametrize("stateful", [True, False])
def test_gradients_equal_allennlps(tmp_path, stateful):
    files = make_files(tmp_path)
    ours, theirs = BiLm.read(*files).double(), _ElmoBiLm(*map(str, files), requires_grad=True).double()
    sentences = [words for words in SENTENCES if words]
    layers = ours(batch(sentences))[0] if stateful else ours.encode(batch(sentences))
    outputs = theirs(batch_to_ids(sentences))
    torch.manual_seed(0)
    weights = torch.randn(layers.shape, dtype=torch.double)
    (layers * weights).sum().backward()
    for layer, weight in zip(outputs["activations"], weights, strict=True):
        without_borders, _ = remove_sentence_boundaries(layer, outputs["mask"])
        (without_borders * weight).sum().backward(retain_graph=True)
    expected = allennlp_gradients(theirs)
    for name, parameter in ours.named_parameters():
        gradient = expected.pop(name)
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-9, rtol=1e-9)
    assert not expected


# On a GPU


@pytest.mark.parametrize("changes", [{}, {"dim": 32, "projection_dim": 32, "use_skip_connections": False}])
def test_padded_steps_are_packed_steps(changes):
    """What a GPU runs, without the recording."""
    torch.manual_seed(2)
    sizes = BiLmOptions.read(
        changed(**{"dim": 64, "projection_dim": 32, "cell_clip": 0.2, "proj_clip": 0.1} | changes)
    )
    stack = BiLm(options=sizes).lstm
    lengths = torch.tensor([3, 11, 1, 26, 11])
    inputs, index = torch.randn(40, sizes.projection_dim), torch.randint(40, (int(lengths.sum()),))
    state = lstm.LstmState(
        torch.randn(sizes.n_layers, 2, 5, sizes.projection_dim), torch.randn(sizes.n_layers, 2, 5, sizes.dim)
    )
    with torch.no_grad():
        linear = FrozenLinear(precision="float32")
        expected, expected_state = stack(inputs, index, lengths, state, linear)
        found, found_state = stack._run_padded(inputs, index, lstm.PackedSteps.of(lengths), state, linear)
    for ours, theirs in zip((*found, *found_state), (*expected, *expected_state), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("stateful", [True, False])
def test_a_gpu_gives_the_same(stateful):
    torch.manual_seed(2)
    bilm = BiLm(options=BiLmOptions.read(changed(dim=64, projection_dim=32))).requires_grad_(False)

    def run(ids):
        return bilm(ids)[0] if stateful else bilm.encode(ids)

    expected = run(batch(SENTENCES))
    bilm.cuda()
    for _ in range(2):
        torch.testing.assert_close(run(batch(SENTENCES).cuda()).cpu(), expected, atol=1e-4, rtol=1e-4)
