import torch

from elmo_tasks.embedding.vector_file import LAYERS, chosen_layers, first_not_finite


def test_chosen_layers():
    layers = torch.arange(24.0).view(3, 2, 2, 2)
    every, top, average = (chosen_layers(layers, which) for which in LAYERS)
    assert torch.equal(every, layers)
    assert torch.equal(top, layers[2:])
    assert torch.equal(average, layers[1:2])


def test_first_not_finite():
    layers = torch.zeros(3, 4, 2, 2)
    assert first_not_finite(layers) is None
    layers[2, 3, 1, 0], layers[0, 2, 0, 1] = torch.nan, torch.inf
    assert first_not_finite(layers) == 2
