import copy
import pickle

import pytest
import torch

from elmo_tasks.elmo import linear as module
from elmo_tasks.elmo.linear import FrozenLinear, Linear

SIZES = [(48, 16), (4096, 128), (128, 1024), (512, 2048), (100, 37)]


def product(
    seed: int, size: tuple[int, int], rows: int = 300
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    outputs, inputs = size
    shapes = ((rows, inputs), size, (outputs,))
    made = [torch.randn(shape, generator=generator) for shape in shapes]
    return made[0], made[1] * inputs**-0.5, made[2]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [Linear, FrozenLinear])
def test_rows_do_not_depend_on_the_rows_beside_them(size, kind):
    inputs, weight, bias = product(1, size)
    linear = Linear() if kind is Linear else FrozenLinear(precision="float32")
    addend = torch.randn(len(inputs), len(weight))
    whole = linear(inputs, weight, bias, addend)
    for rows in (1, 2, 3, 5, 12, 16, 17, 64, 65, 100, 299):
        assert torch.equal(linear(inputs[:rows], weight, bias, addend[:rows]), whole[:rows]), rows


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("plain", [True, False])
def test_is_the_product(size, plain, monkeypatch):
    monkeypatch.setattr(module, "onednn_is_faster", lambda: not plain)
    inputs, weight, bias = product(2, size)
    addend = torch.randn(len(inputs), len(weight))
    expected = inputs.double() @ weight.double().t() + bias.double() + addend.double()
    found = FrozenLinear(precision="float32")(inputs, weight, bias, addend)
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("precision", "tolerance"), [("bfloat16", 0.02), ("int8", 0.06)])
@pytest.mark.parametrize("rows", [1, 70])
def test_lower_precision_is_near(precision, tolerance, rows):
    inputs, weight, bias = product(3, (512, 256), rows)
    addend = torch.randn(rows, 512)
    expected = Linear()(inputs, weight, bias, addend)
    found = FrozenLinear(precision=precision)(inputs, weight, bias, addend)
    assert 0 < (found - expected).abs().max() < tolerance


def test_weights_may_be_views():
    inputs, weight, _ = product(4, (40, 64))
    linear = FrozenLinear(precision="float32")
    for half in weight.split(32, dim=1):
        torch.testing.assert_close(linear(inputs[:, :32], half), inputs[:, :32] @ half.t())


def test_changed_weights_are_noticed():
    inputs, weight, _ = product(5, (40, 64))
    linear, made = FrozenLinear(precision="float32"), []

    def use():
        linear.renew([weight])
        made.append(linear.derived("sum", lambda: weight.sum().item()))
        return linear(inputs, weight)

    before = use()
    assert torch.equal(use(), before)
    with torch.no_grad():
        weight.mul_(2)
    torch.testing.assert_close(use(), 2 * before)
    assert made == [made[0], made[0], pytest.approx(2 * made[0])]


def test_what_is_derived_is_made_once_until_forgotten():
    linear, other, made = FrozenLinear(precision="float32"), torch.zeros(3), []
    for _ in range(2):
        linear.derived("it", lambda: made.append(1), other)
    assert len(made) == 1
    other += 1
    linear.derived("it", lambda: made.append(1), other)
    linear.derived("it", lambda: made.append(1), torch.ones(3))
    assert len(made) == 3
    linear.forget("it")
    linear.derived("it", lambda: made.append(1), torch.ones(3))
    assert len(made) == 4


def test_copies_begin_anew():
    inputs, weight, _ = product(6, (40, 64))
    linear = FrozenLinear(precision="bfloat16")
    expected = linear(inputs, weight)
    for other in (copy.deepcopy(linear), pickle.loads(pickle.dumps(linear))):
        assert torch.equal(other(inputs, weight), expected)


def test_the_measurement_is_made():
    assert module.onednn_is_faster() in (True, False)
