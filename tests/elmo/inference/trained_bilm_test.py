import copy
from functools import partial

import numpy as np
import pytest
import torch
from allennlp.confidence_checks.normalization_bias_verification import NormalizationBiasVerification

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.inference import FrozenBiLm
from elmo_tasks.elmo.model.encoders import WordEncoder
from tests.elmo.files import (
    FILLING,
    NONEMPTY,
    SENTENCES,
    VARIANTS,
    VOCABULARY,
    batch,
    frozen,
    make_files,
    make_word_files,
    random_bilm,
    read_bilm,
    trained,
)
from tests.elmo.numpy_reference import NumpyBiLm
from tests.elmo.threads import at_once


@pytest.fixture
def fast_paths(monkeypatch):
    """How many calls a `FrozenBiLm` has answered."""
    calls = []
    for name in ("encode", "forward"):
        original = getattr(FrozenBiLm, name)

        def counted(self, *inputs, original=original):
            calls.append(self)
            return original(self, *inputs)

        monkeypatch.setattr(FrozenBiLm, name, counted)
    return calls


def loss_of(bilm, stateful):
    """Returns the loss of two batches; the second goes on where the first ended."""
    if not stateful:
        by_layer = torch.arange(1, 1 + bilm.num_layers).view(-1, 1, 1, 1)
        return (bilm.encode(batch(SENTENCES)).cos() * by_layer).sum()
    first, state = bilm(batch(SENTENCES))
    second, state = bilm(batch(SENTENCES[::-1]), state)
    return first.cos().sum() + 2 * second.cos().sum() + state.hidden.square().sum() + state.cell.sum()


@pytest.mark.parametrize("stateful", [True, False])
@pytest.mark.parametrize("changes", VARIANTS)
def test_values_and_gradients_are_those_of_the_model(tmp_path, changes, stateful):
    model = read_bilm(*make_files(tmp_path, **changes)).double()
    losses = []
    bilm = trained(model).double()
    for each in (bilm, model):
        losses.append(loss_of(each, stateful))
        losses[-1].backward()
    torch.testing.assert_close(*losses, atol=0, rtol=1e-12)
    for (name, ours), theirs in zip(bilm.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-8, rtol=1e-8, msg=name)


def test_gradients_in_float32_are_near_the_models():
    model = random_bilm(**FILLING, cell_clip=0.2, proj_clip=0.1)
    bilm, model = trained(model), model.double()
    for each in (bilm, model):
        loss_of(each, True).backward()
    for (name, ours), theirs in zip(bilm.named_parameters(), model.parameters(), strict=True):
        assert (ours.grad - theirs.grad).norm() < 2e-5 * theirs.grad.norm(), name


def test_a_bilm_of_words_equals_the_step_by_step_reference(tmp_path):
    files = make_word_files(tmp_path)
    bilm, reference = trained(read_bilm(**files)), NumpyBiLm(**files)
    layers = bilm.encode(WordEncoder.padded_ids(SENTENCES))
    assert layers.requires_grad
    for row, words in enumerate(SENTENCES):
        reference.reset()
        if words:
            np.testing.assert_allclose(layers[:, row, : len(words)].detach(), reference(words), atol=1e-5)
    bilm.encode(WordEncoder.padded_ids([["the", "nowhere"]])).square().sum().backward()
    read = {VOCABULARY.index(word) for word in ("<S>", "</S>", "the", "<UNK>")}
    gradient = bilm.token_encoder.embedding.grad
    assert {row for row in range(len(VOCABULARY)) if gradient[row].any()} == read
    bilm.eval().requires_grad_(False)
    # Some numbers are above 1, with an absolute error of more than 1e-6
    torch.testing.assert_close(
        bilm.encode(WordEncoder.padded_ids(SENTENCES)), layers.detach(), atol=1e-6, rtol=1e-6
    )


def test_without_gradients_it_is_a_frozen_one(fast_paths):
    model = random_bilm(**FILLING)
    bilm = trained(model)
    expected = frozen(model).encode(batch(SENTENCES))
    del fast_paths[:]
    for run in (lambda: bilm.encode(batch(SENTENCES)), lambda: bilm(batch(SENTENCES))[0]):
        # In training, and with gradients
        assert run().requires_grad
        with torch.no_grad():
            assert not run().requires_grad
        assert bilm.eval()(batch(SENTENCES))[0].requires_grad
        assert not fast_paths
        with torch.no_grad():
            found = [run(), run()]
        assert all(torch.equal(layers, found[0]) for layers in found)
        torch.testing.assert_close(found[0], expected, atol=1e-6, rtol=0)
        with torch.inference_mode():
            assert torch.equal(run(), found[0])
        # One biLM for all of them
        assert len(fast_paths) == 3
        assert len(set(map(id, fast_paths))) == 1
        del fast_paths[:]
        bilm.train()


def test_after_a_step_its_vectors_are_the_new_ones(fast_paths):
    bilm = trained(random_bilm(**FILLING))
    optimizer = torch.optim.SGD(bilm.parameters(), lr=0.003)
    before = None
    for _ in range(3):
        bilm.eval()
        with torch.no_grad():
            found = bilm.encode(batch(SENTENCES))
        assert fast_paths
        del fast_paths[:]
        model = random_bilm(**FILLING)
        model.load_state_dict(bilm.state_dict())
        torch.testing.assert_close(found, model.encode(batch(SENTENCES)).detach(), atol=1e-6, rtol=1e-6)
        assert before is None or not torch.allclose(found, before, atol=1e-3)
        before = found
        bilm.train()
        loss_of(bilm, False).backward()
        optimizer.step()


EVENTS = {
    "of nothing": lambda bilm: halve(bilm),
    "double and float": lambda bilm: halve(bilm).double().float(),
    "weights_changed": lambda bilm: halve(bilm).weights_changed(),
    "load_state_dict of a module around it": lambda bilm: torch.nn.ModuleList([bilm]).load_state_dict(
        {f"0.{name}": weight / 2 for name, weight in bilm.state_dict().items()}
    ),
}
"""Changes of the weights; `tests/drop_in/uses_test.py` has more of them."""


def halve(bilm):
    """In a way that PyTorch does not count."""
    for weight in bilm.parameters():
        weight.data.div_(2)
    return bilm


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_changed_weights(event):
    bilm = trained(random_bilm(**FILLING)).eval().requires_grad_(False)
    expected = trained(halve(copy.deepcopy(bilm))).eval().requires_grad_(False).encode(batch(SENTENCES))
    before = bilm.encode(batch(SENTENCES))
    event(bilm)
    assert torch.equal(bilm.encode(batch(SENTENCES)), expected)
    assert not torch.allclose(before, expected, atol=1e-3)


class Doubled(torch.nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base

    def forward(self, inputs):
        return self.base(inputs) * 2


MODIFIED_INSIDE = {
    "adapter": lambda bilm: setattr(bilm.token_encoder, "projection", Doubled(bilm.token_encoder.projection)),
    "hook of a layer": lambda bilm: bilm.lstm.directions[0][1].register_forward_pre_hook(
        lambda _, inputs: (inputs[0] * 2, *inputs[1:])
    ),
    "a method": lambda bilm: vars(bilm.token_encoder).update(forward=Doubled(bilm.token_encoder.forward)),
}


@pytest.mark.parametrize("insert", MODIFIED_INSIDE.values(), ids=MODIFIED_INSIDE)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_modules_that_are_placed_inside_run(insert, requires_grad):
    model = random_bilm(**FILLING)
    bilm = trained(model).eval().requires_grad_(requires_grad)
    for run in (lambda each: each.encode(batch(NONEMPTY)), lambda each: each(batch(NONEMPTY))[0]):
        before = run(bilm).detach()
    insert(bilm)
    insert(model)
    for run in (lambda each: each.encode(batch(NONEMPTY)), lambda each: each(batch(NONEMPTY))[0]):
        torch.testing.assert_close(run(bilm).detach(), run(model).detach(), atol=1e-6, rtol=0)
        assert not torch.allclose(run(bilm), before, atol=1e-3)
    with pytest.raises(ElmoError, match=r"^bilm.*foreign"):
        bilm.token_vectors(batch(NONEMPTY)[0])
    with pytest.raises(ElmoError, match=r"^bilm.*foreign"):
        bilm(batch(NONEMPTY), has_bos_eos=True)


def test_the_engine_runs_under_allennlps_checks(fast_paths):
    """Also in training, if no parameter wants a gradient."""
    bilm = trained(random_bilm()).requires_grad_(False)
    NormalizationBiasVerification(bilm).register_hooks()
    bilm.encode(batch(NONEMPTY))
    assert len(fast_paths) == 1
    bilm.check_structure()


@pytest.mark.slow
def test_eight_callers_of_a_cold_one(fast_paths):
    model = random_bilm(**FILLING)
    expected = frozen(model).encode(batch(SENTENCES))
    for _ in range(20):
        del fast_paths[:]
        bilm = trained(model).eval().requires_grad_(False)
        found = at_once(*[partial(bilm.encode, batch(SENTENCES))] * 8)
        assert all(torch.equal(layers, expected) for layers in found)
        # Packed once, for all of them
        assert len(set(map(id, fast_paths))) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_training_under_autocast(dtype):
    model = random_bilm(**FILLING)
    bilm = trained(model)
    expected = model.encode(batch(NONEMPTY))
    expected.square().sum().backward()

    def train():
        with torch.autocast("cpu", dtype=dtype):
            layers = bilm.encode(batch(NONEMPTY))
            layers.square().sum().backward()
            return layers, bilm(batch(NONEMPTY))[0]

    for run in (train, lambda: at_once(train)[0]):
        bilm.zero_grad()
        for layers in run():
            torch.testing.assert_close(layers.float(), expected, atol=0.05, rtol=0)
    for (name, ours), theirs in zip(bilm.named_parameters(), model.parameters(), strict=True):
        assert ours.grad.dtype == torch.float32
        assert (ours.grad - theirs.grad).norm() < 0.1 * theirs.grad.norm(), name
