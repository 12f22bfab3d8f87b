import math
from collections import Counter

import pytest
import torch

from elmo_tasks.language_model.metric import DIRECTIONS, OTHER_WORDS, FrequentWords, Perplexity
from elmo_tasks.metrics.classification import confusion_name


def targets(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    return (
        -5 * torch.rand(2, number, generator=generator),
        torch.rand(2, number, generator=generator) < 0.3,
    )


@pytest.mark.parametrize("sizes", [[100], [40, 60], [1] * 100])
def test_perplexity_is_that_of_all_targets_whatever_the_batches(sizes):
    scores, correct = targets(100)
    metric = Perplexity()
    for part, right in zip(scores.split(sizes, dim=1), correct.split(sizes, dim=1), strict=True):
        metric(part, right)
    metrics = metric.get_metric()
    assert metrics["perplexity"] == pytest.approx(math.exp(-scores.double().mean()))
    assert metrics["accuracy"] == pytest.approx(correct.double().mean().item())
    for direction, row, right in zip(DIRECTIONS, scores.double(), correct, strict=True):
        assert metrics[f"perplexity_{direction}"] == pytest.approx(math.exp(-row.mean()))
        assert metrics[f"accuracy_{direction}"] == pytest.approx(right.double().mean().item())
    assert metric.get_metric(reset=True) == metrics
    assert metric.get_metric() == {}


def test_a_perplexity_beyond_all_numbers():
    metric = Perplexity()
    metric(torch.tensor([[-800.0], [0.0]]), torch.tensor([[False], [True]]))
    metrics = metric.get_metric()
    assert metrics["perplexity_forward"] == math.inf
    assert metrics["perplexity_backward"] == 1
    assert metrics["perplexity"] == pytest.approx(math.exp(400))


@pytest.mark.parametrize("number", [1, 3, 50])
def test_frequent_words_have_a_class_each(number):
    words = [f"word{rank}" for rank in range(10)]
    generator = torch.Generator().manual_seed(number)
    predicted, gold = torch.randint(10, (2, 200), generator=generator)
    metric = FrequentWords(words, number)
    metric(predicted[:50], gold[:50])
    metric(predicted[50:], gold[50:])
    metrics = metric.get_metric(reset=True)
    named = [
        [words[rank] if rank < number else OTHER_WORDS for rank in row.tolist()] for row in (predicted, gold)
    ]
    pairs = Counter(zip(*named, strict=True))
    labels = [*words[:number], OTHER_WORDS]
    for one in labels:
        for other in labels:
            assert metrics[confusion_name(one, other)] == pairs[other, one]
    assert "accuracy" not in metrics
