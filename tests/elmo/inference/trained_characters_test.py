import pytest
import torch

from elmo_tasks.elmo.inference.trained_bilm import TrainedCharacterCnn
from elmo_tasks.elmo.inference.training_products import Products
from elmo_tasks.elmo.model import CharacterOptions
from elmo_tasks.elmo.model.characters import character_ids
from elmo_tasks.elmo.model.encoders import CharacterEncoder
from tests.elmo.inference.training_products_test import PRECISIONS

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
