"""The kernels of a biLM that is trained: products, layers of the LSTM, and the character CNN."""

import sys

import pytest
import torch

from elmo_tasks.elmo.inference import trained_lstm, training_products
from elmo_tasks.elmo.inference.trained_bilm import TrainedCharacterCnn
from elmo_tasks.elmo.inference.trained_lstm import (
    Clips,
    LayerPasses,
    RecordedLayer,
    TrainedLayer,
    trained_layer,
)
from elmo_tasks.elmo.inference.training_products import (
    BufferPool,
    Product,
    Products,
    Workspace,
    trains_in_bfloat16,
)
from elmo_tasks.elmo.model import CharacterOptions
from elmo_tasks.elmo.model.characters import character_ids
from elmo_tasks.elmo.model.encoders import CharacterEncoder
from tests.elmo.threads import at_once

TOLERANCE = {"float32": 1e-5, "bfloat16": 2e-2}
"""The error of a product of random numbers, as a share of its standard deviation; bfloat16 has 8 bits."""
PRECISIONS = [
    "float32",
    pytest.param("bfloat16", marks=pytest.mark.skipif(not trains_in_bfloat16(), reason="no bfloat16 here")),
]


def some(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("rows", [1, 37])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("onednn", [True, False])
def test_equals_autograd_in_double_precision(precision, rows, onednn, monkeypatch):
    products = Products(precision)
    if not onednn:
        monkeypatch.setattr(training_products, "_onednn_dtypes", frozenset)
    factors = [some(rows, 48), some(32, 48, seed=1), some(32, seed=2)]
    of_result = some(rows, 32, seed=3)
    found = [part.clone().requires_grad_() for part in factors]
    expected = [part.double().requires_grad_() for part in factors]
    results = Product.apply(products, *found), torch.nn.functional.linear(*expected)
    for result in results:
        result.backward(of_result.to(result.dtype))
    pairs = [results, *((a.grad, b.grad) for a, b in zip(found, expected, strict=True))]
    for ours, theirs in pairs:
        assert ours.dtype == torch.float32
        assert (ours - theirs).abs().max() <= 4 * TOLERANCE[precision] * max(1, theirs.std(correction=0))


def test_memory_is_lent_to_one_thread_alone():
    buffers, like = BufferPool(), torch.zeros(())

    def use() -> int:
        broken = 0
        for number in range(2000):
            workspace = Workspace(buffers)
            part = workspace.empty(like, 8)
            part.fill_(number)
            other = workspace.empty(like, 8)
            other.fill_(-number)
            broken += not (part == number).all()
        return broken

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert at_once(*[use] * 8) == [0] * 8
    finally:
        sys.setswitchinterval(interval)


def tensors(*, dim, size, with_projection, sequences=4, dtype=torch.float64):
    def some(*shape):
        return (
            torch.randn(*shape, dtype=torch.float64, generator=generator).mul_(0.5).to(dtype).requires_grad_()
        )

    generator = torch.Generator().manual_seed(13)
    found = []
    for _ in range(2):
        found += [
            some(9, size),
            some(sequences, size),
            some(sequences, dim),
            some(4 * dim, 2 * size),
            some(4 * dim),
        ]
        found.append(some(size, dim) if with_projection else None)
    return found


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_plain_lstm_where_it_computes_the_same(dtype, monkeypatch):
    """Sequences of one length, without bounds and projection: the same values and gradients."""
    given = tensors(dim=5, size=5, with_projection=False, sequences=3, dtype=dtype)
    learned = [tensor for tensor in given if tensor is not None]
    clips, products = Clips(0, 0), Products()
    results = [
        trained_layer([3, 3, 3], clips, products, *given),
        TrainedLayer.apply(LayerPasses(clips, products), [3, 3, 3], *given),
    ]
    losses = [sum(part.square().sum() for part in found) for found in results]
    gradients = [torch.autograd.grad(loss, learned) for loss in losses]
    for pair in (*zip(*results, strict=True), *zip(*gradients, strict=True)):
        torch.testing.assert_close(*pair)
    monkeypatch.setattr(trained_lstm, "plain_lstm", None)
    trained_layer([3, 3, 2, 1], Clips(0, 0), Products(), *given)


def results_of(passes, given):
    """The results for sequences of one length, and the gradients of all that is learned."""
    results = TrainedLayer.apply(passes, 3 * [len(given[1])], *given)
    learned = [tensor for tensor in given if tensor is not None]
    return [*results, *torch.autograd.grad(sum((part * part.cos()).sum() for part in results), learned)]


@pytest.mark.parametrize(("size", "with_projection"), [(32, True), (48, False)])
def test_passes_that_a_gpu_would_record(size, with_projection):
    """Without a GPU they are run, with the same results."""
    clips, products = Clips(0.5, 0.4), Products()
    given = tensors(dim=48, size=size, with_projection=with_projection, sequences=3, dtype=torch.float32)
    plain, recorded = (results_of(kind(clips, products), given) for kind in (LayerPasses, RecordedLayer))
    assert all(map(torch.equal, plain, recorded))


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("size", "with_projection"), [(32, True), (48, False)])
def test_recorded_passes(precision, size, with_projection):
    clips, products = Clips(0.5, 0.4), Products(precision)
    recorded, results = RecordedLayer(clips, products), []
    for scale, sequences in ((1.0, 3), (0.5, 3), (2.0, 3), (1.0, 9), (1.0, 3)):
        given = [
            None if tensor is None else (tensor.detach() * scale).cuda().requires_grad_()
            for tensor in tensors(
                dim=48, size=size, with_projection=with_projection, sequences=sequences, dtype=torch.float32
            )
        ]
        if sequences == 9:
            given[0], given[6] = (torch.cat([part] * 3).detach().requires_grad_() for part in given[::6])
        results.append([results_of(passes, given) for passes in (LayerPasses(clips, products), recorded)])
    for plain, found in results:
        for expected, part in zip(plain, found, strict=True):
            torch.testing.assert_close(part, expected, atol=1e-4, rtol=1e-4)
    assert not recorded._forward_graph._failed
    assert not recorded._backward_graph._failed


# Runs of a character, and more characters than a word may have
WORDS = ["a", "the", "aaaa", "....", "x" * 48, "y" * 60, "0123456789" * 5, *map(str, range(300))]
FILTERS = ((1, 4), (2, 8), (3, 16), (7, 32))


def encoded(activation, precision=None):
    """Vectors and the gradients of all weights: of the model in float64 or, in a precision, of the kernel."""
    torch.manual_seed(5)
    options = CharacterOptions(filters=FILTERS, dim=16, activation=activation, n_highway=1)
    encoder = CharacterEncoder(options=options, projection_dim=24)
    run = encoder.double() if precision is None else TrainedCharacterCnn(encoder, Products(precision))
    vectors = run(torch.tensor(character_ids(WORDS)))
    (vectors * torch.linspace(-1, 1, vectors.numel()).view(vectors.shape)).sum().backward()
    return {"vectors": vectors.detach()} | {name: part.grad for name, part in encoder.named_parameters()}


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_equals_autograd(precision, activation):
    expected = encoded(activation)
    found = encoded(activation, precision)
    assert found.keys() == expected.keys()
    for name, part in expected.items():
        # In bfloat16 another window may be the highest.
        error = (found[name] - part).norm() / part.norm()
        assert error < {"float32": 1e-5, "bfloat16": 0.1}[precision], name
