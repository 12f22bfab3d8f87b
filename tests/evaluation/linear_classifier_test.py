import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from elmo_tasks.evaluation import linear_classifier
from elmo_tasks.evaluation.linear_classifier import VectorsOnDisk, fit


@pytest.mark.parametrize("block", [5, 64, 1 << 22])
def test_vectors_on_disk(tmp_path, monkeypatch, block):
    monkeypatch.setattr(linear_classifier, "_BLOCK", block)
    written = [torch.randn(number, 6) for number in (3, 0, 20, 7)]
    with VectorsOnDisk(tmp_path / "vectors", 6) as vectors:
        for part in written:
            vectors.append(part)
        for _ in range(2):
            blocks = list(vectors.blocks())
            assert max(map(len, blocks)) <= max(1, block // 6)
            assert torch.equal(torch.cat(blocks), torch.cat(written))


@pytest.mark.parametrize("block", [100, 1 << 22])
def test_the_minimum_is_scikit_learns(tmp_path, monkeypatch, block):
    monkeypatch.setattr(linear_classifier, "_BLOCK", block)
    monkeypatch.setattr(linear_classifier, "TOLERANCE", 1e-6)
    monkeypatch.setattr(linear_classifier, "L2", 0.01)
    generator = np.random.default_rng(6)
    classes = generator.integers(3, size=150)
    # Features of very different sizes, one of them constant
    features = generator.normal(size=(150, 5)) + np.eye(3, 5)[classes]
    features = (features * [1, 100, 0.01, 1, 0] + [0, 5000, 0, 1, 7]).astype(np.float32)
    with VectorsOnDisk(tmp_path / "vectors", 5) as vectors:
        vectors.append(torch.from_numpy(features))
        classifier = fit(vectors, torch.from_numpy(classes), 3)
    deviation = np.where(features.std(axis=0) > 0, features.std(axis=0), 1)
    scaled = (features.astype(float) - features.mean(axis=0, dtype=float)) / deviation
    reference = LogisticRegression(C=1 / (0.01 * 150), tol=1e-8, max_iter=1000).fit(scaled, classes)
    found = features.astype(float) @ classifier.weight.numpy().T.astype(float) + classifier.bias.numpy()
    expected = reference.decision_function(scaled)
    centred = [scores - scores.mean(axis=1, keepdims=True) for scores in (found, expected)]
    assert np.abs(centred[0] - centred[1]).max() < 0.01
    assert classifier(torch.from_numpy(features)).tolist() == expected.argmax(axis=1).tolist()
