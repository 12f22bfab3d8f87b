import numpy as np
import pytest
import torch
from torch.nn import functional as F

from elmo_tasks.evaluation import tagging as linear_classifier
from elmo_tasks.evaluation.tagging import VectorsOnDisk, fit


def test_vectors_on_disk(tmp_path):
    written = [torch.randn(number, 6) for number in (3, 0, 20, 7)]
    with VectorsOnDisk(tmp_path / "vectors", 6) as vectors:
        for part in written:
            vectors.append(part)
        for _ in range(2):
            assert np.array_equal(vectors.read(), torch.cat(written).numpy())


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_minimum_is_that_of_the_definition(tmp_path, monkeypatch, number):
    monkeypatch.setattr(linear_classifier, "TOLERANCE", 1e-6)
    monkeypatch.setattr(linear_classifier, "L2", 0.01)
    generator = np.random.default_rng(6)
    classes = generator.integers(number, size=150)
    # Features of very different sizes, one of them constant
    features = generator.normal(size=(150, 5)) + np.eye(3, 5)[classes]
    features = (features * [1, 100, 0.01, 1, 0] + [0, 5000, 0, 1, 7]).astype(np.float32)
    with VectorsOnDisk(tmp_path / "vectors", 5) as vectors:
        vectors.append(torch.from_numpy(features))
        classifier = fit(vectors, torch.from_numpy(classes), number)
    deviation = np.where(features.std(axis=0) > 0, features.std(axis=0), 1)
    scaled = (features.astype(float) - features.mean(axis=0, dtype=float)) / deviation
    # (classes, features and bias), by Newton's method on the definition
    weight = torch.zeros(number, 6, dtype=torch.double)
    inputs = torch.cat([torch.from_numpy(scaled), torch.ones(150, 1, dtype=torch.double)], dim=1)

    def loss(flat: torch.Tensor) -> torch.Tensor:
        weight = flat.view(number, 6)
        penalty = 0.01 / 2 * weight[:, :5].square().sum()
        return F.cross_entropy(inputs @ weight.T, torch.from_numpy(classes)) + penalty

    flat = weight.flatten()
    for _ in range(30):
        gradient = torch.autograd.functional.jacobian(loss, flat)
        hessian = torch.autograd.functional.hessian(loss, flat)
        flat = flat - torch.linalg.pinv(hessian) @ gradient
    expected = (inputs @ flat.view(number, 6).T).numpy()
    found = features.astype(float) @ classifier.weight.numpy().T.astype(float) + classifier.bias.numpy()
    centred = [scores - scores.mean(axis=1, keepdims=True) for scores in (found, expected)]
    assert np.abs(centred[0] - centred[1]).max() < 0.01
    assert classifier(torch.from_numpy(features)).tolist() == expected.argmax(axis=1).tolist()
