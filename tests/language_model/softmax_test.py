import math

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from torch.nn import functional as F

from elmo_tasks.language_model import softmax as module
from elmo_tasks.language_model.softmax import Softmax

CLASSES, DIM, ROWS = 23, 6, 10
EACH = [
    {"type": "full"},
    {"type": "sampled", "num_samples": 7},
    {"type": "adaptive", "cutoffs": [5, 12], "div_value": 2.0},
]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    """The last chunk of rows, and of classes, is smaller than the others."""
    monkeypatch.setattr(module, "ROWS_OF_LOGITS", 4)
    monkeypatch.setattr(module, "LOGITS_AT_ONCE", 40)


def build(config, num_classes=CLASSES, dim=DIM):
    """With a bias, in double precision."""
    torch.manual_seed(0)
    softmax = Softmax.from_params(Params(dict(config)), num_classes=num_classes, dim=dim).double()
    if config["type"] != "adaptive":
        torch.nn.init.normal_(softmax.bias)
    return softmax


def data(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(ROWS, DIM, generator=generator, dtype=torch.float64).to(dtype)
    # A class twice, the first and the last.
    targets = torch.tensor([3, 0, 22, 3, 11, 12, 5, 4, 1, 17])
    return vectors.requires_grad_(), targets


def gradients(loss, softmax, vectors):
    return torch.autograd.grad(3 * loss, [vectors, *softmax.parameters()])


def dense(softmax, vectors, targets):
    """The loss of `sampled_softmax_loss` by its documentation, row by row."""
    samples, num_draws = softmax.sample()

    def logit(vector, k):
        p = math.log((k + 2) / (k + 1)) / math.log(CLASSES + 1)
        return vector @ softmax.weight[k] + softmax.bias[k] - math.log(1 - (1 - p) ** num_draws)

    rows = []
    for vector, target in zip(vectors, targets.tolist(), strict=True):
        logits = [logit(vector, k) for k in (target, *(k for k in samples.tolist() if k != target))]
        rows.append(F.cross_entropy(torch.stack(logits), torch.tensor(0)))
    assert 0 < sum(target in samples for target in targets) < ROWS
    return torch.stack(rows).sum()


@pytest.mark.parametrize("rows_at_once", [3, 4, 100])
@pytest.mark.parametrize("config", EACH[:2])
def test_loss_and_gradients(config, rows_at_once, monkeypatch):
    monkeypatch.setattr(module, "ROWS_OF_LOGITS", rows_at_once)
    softmax, (vectors, targets) = build(config), data()
    torch.manual_seed(2)
    loss = softmax.loss(vectors, targets)
    torch.manual_seed(2)
    if config["type"] == "full":
        logits = F.linear(vectors, softmax.weight, softmax.bias)
        expected = F.cross_entropy(logits, targets, reduction="sum")
    else:
        expected = dense(softmax, vectors, targets)
    torch.testing.assert_close(loss, expected)
    pairs = zip(gradients(loss, softmax, vectors), gradients(expected, softmax, vectors), strict=True)
    for found, right in pairs:
        torch.testing.assert_close(found, right)


@pytest.mark.parametrize("config", EACH)
def test_exact(config):
    softmax, (vectors, targets) = build(config), data()
    if config["type"] == "adaptive":
        expected = softmax.softmax.log_prob(vectors)
    else:
        expected = F.linear(vectors, softmax.weight, softmax.bias).log_softmax(dim=1)
    best = expected.argmax(dim=1)
    targets[::2] = best[::2]
    right = expected.gather(1, targets.unsqueeze(1)).squeeze(1).detach()

    scores, predicted = softmax.exact(vectors, targets)
    torch.testing.assert_close(scores, right)
    assert torch.equal(predicted, best)
    softmax.eval()
    torch.testing.assert_close(softmax.loss(vectors, targets).detach(), -right.sum())
    with torch.no_grad():
        torch.testing.assert_close(softmax.loss(vectors, targets), -right.sum())


@pytest.mark.parametrize("config", EACH)
def test_vectors_in_half_precision(config):
    softmax, (vectors, targets) = build(config).float(), data(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        torch.manual_seed(2)
        loss = softmax.loss(vectors, targets)
        scores, _ = softmax.exact(vectors, targets)
    torch.manual_seed(2)
    expected = softmax.loss(vectors.float(), targets)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(scores, softmax.exact(vectors.float(), targets)[0])
    pairs = zip(gradients(loss, softmax, vectors), gradients(expected, softmax, vectors), strict=True)
    for found, right in pairs:
        torch.testing.assert_close(found, right)


def test_samples_are_drawn_until_enough_are_distinct():
    """Probabilities of two draws of five classes without replacement, worked out by hand."""
    softmax = build({"type": "sampled", "num_samples": 2}, num_classes=5)
    p = [math.log((k + 2) / (k + 1)) / math.log(6) for k in range(5)]
    inclusion = [p[k] + sum(p[j] * p[k] / (1 - p[j]) for j in range(5) if j != k) for k in range(5)]
    num_draws = 1 + sum(q / (1 - q) for q in p)

    drawn = [softmax.sample() for _ in range(4000)]
    assert all(len(classes) == 2 and classes[0] < classes[1] for classes, _ in drawn)
    counts = torch.cat([classes for classes, _ in drawn]).bincount(minlength=5)
    # Four standard deviations are 0.03; of the number of draws, 0.08.
    torch.testing.assert_close(counts / 4000, torch.tensor(inclusion), atol=0.03, rtol=0)
    assert sum(number for _, number in drawn) / 4000 == pytest.approx(num_draws, abs=0.08)
    classes, number = build({"type": "sampled", "num_samples": 199}, num_classes=200).sample()
    assert len(classes.unique()) == 199 < number


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"type": "sampled", "num_samples": CLASSES}, "num_samples .*23"),
        ({"type": "adaptive", "cutoffs": [5, 5]}, r"cutoffs .*\[5, 5\]"),
        ({"type": "adaptive", "cutoffs": [23]}, r"cutoffs .*\[23\]"),
        ({"type": "adaptive", "cutoffs": [5, 12]}, "div_value .*4.0"),
    ],
)
def test_impossible_values(config, message):
    with pytest.raises(ConfigurationError, match=message):
        build(config)
