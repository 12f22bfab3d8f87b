import pytest
import torch
from torch import nn

from elmo_tasks.coref.mentions import feature, feed_forward, scoring_layers


def linear_layers(layers: nn.Module) -> list[nn.Linear]:
    return [layer for layer in layers.modules() if isinstance(layer, nn.Linear)]


@pytest.mark.parametrize("hidden_sizes", [[4], [6, 3], [5, 4, 3]])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_relu_between_products(hidden_sizes, shape):
    torch.manual_seed(1)
    layers = feed_forward(7, hidden_sizes, dropout=0.0)
    assert [layer.out_features for layer in linear_layers(layers)] == [*hidden_sizes, 1]
    inputs = torch.randn(*shape, 7)
    expected = inputs
    for number, layer in enumerate(linear_layers(layers)):
        expected = (expected.clamp(min=0) if number else expected) @ layer.weight.T + layer.bias
    assert expected.shape == (*shape, 1)
    torch.testing.assert_close(layers(inputs), expected)


def test_the_first_product_can_be_made_elsewhere():
    torch.manual_seed(1)
    whole, behind = feed_forward(7, [6, 3], dropout=0.0), scoring_layers([6, 3], dropout=0.0)
    behind.load_state_dict(whole[1].state_dict())
    inputs = torch.randn(2, 7)
    assert torch.equal(behind(whole[0](inputs)), whole(inputs))


def test_dropout_is_of_training_alone():
    torch.manual_seed(1)
    layers, inputs = feed_forward(7, [50], dropout=0.5), torch.randn(7)
    assert layers(inputs) != layers(inputs)
    layers.eval()
    assert layers(inputs) == layers(inputs)


def test_vectors_of_a_feature():
    """Glorot and Bengio 2010, equation 16."""
    weight = feature(9, 20).weight
    bound = (6 / (9 + 20)) ** 0.5
    assert weight.shape == (9, 20)
    assert weight.requires_grad
    assert 0.9 * bound < weight.abs().max() <= bound
