import numpy as np
import torch
from torch import nn

from elmo_tasks.elmo.model import ScalarMix

LAYERS = torch.randn(3, 2, 5, 4, generator=torch.Generator().manual_seed(0))


def mix(**options):
    return ScalarMix(num_layers=3, dim=4, **options)


def test_equation_1():
    module = mix()
    module.scores.data = torch.tensor([0.5, -1.0, 2.0])
    module.gamma.data = torch.tensor(1.7)
    shares = np.exp([0.5, -1.0, 2.0]) / np.exp([0.5, -1.0, 2.0]).sum()
    expected = 1.7 * sum(s * layer for s, layer in zip(shares, LAYERS.numpy(), strict=True))
    np.testing.assert_allclose(module(LAYERS).detach(), expected, rtol=1e-5)


def test_function_depends_on_the_token():
    module = mix(weights="function", gamma=False)
    module.projections.data[2, 0] = 10.0
    shares = (10.0 * LAYERS[2, ..., 0]).exp()
    shares = shares / (2 + shares)
    rest = (1 - shares) / 2
    expected = shares[..., None] * LAYERS[2] + rest[..., None] * (LAYERS[0] + LAYERS[1])
    torch.testing.assert_close(module(LAYERS), expected)


def test_frozen_is_drawn_once_and_saved():
    torch.manual_seed(1)
    one = mix(weights="frozen", gamma=False)
    two = mix(weights="frozen", gamma=False)
    assert not torch.equal(one.scores, two.scores)
    assert not list(one.parameters())
    two.load_state_dict(one.state_dict())
    assert torch.equal(one(LAYERS), two(LAYERS))


def test_the_top_layer_alone_has_nothing_to_learn():
    module = mix(layers="top", gamma=False)
    assert torch.equal(module(LAYERS), LAYERS[-1])
    assert not list(module.parameters())
    assert module.squared_norm() == 0


def test_layer_norm_is_per_token():
    normalised = mix(layers="top", gamma=False, layer_norm=True)(LAYERS)
    expected = nn.LayerNorm(4, elementwise_affine=False)(LAYERS[-1, 1, 3])
    torch.testing.assert_close(normalised[1, 3], expected)


def test_squared_norm():
    module = mix()
    module.scores.data = torch.tensor([1.0, 2.0, -3.0])
    module.gamma.data = torch.tensor(100.0)
    assert module.squared_norm() == 14
    function = mix(weights="function")
    function.projections.data.fill_(2.0)
    assert function.squared_norm() == 48
    assert mix(weights="frozen").squared_norm() == 0
