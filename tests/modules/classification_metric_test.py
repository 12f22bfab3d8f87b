import random

import pytest
import torch

from elmo_tasks.modules.metrics import ClassificationMetric, confusion_name

LABELS = ["bad", "so-so", "good", "never seen"]


def pairs(number, classes):
    generator = random.Random(number)
    return [[generator.randrange(classes) for _ in range(number)] for _ in range(2)]


def evaluate(predictions, gold, labels=LABELS):
    metric = ClassificationMetric(labels)
    metric(torch.tensor(predictions), torch.tensor(gold))
    return metric


def test_each_cell_has_a_name_of_its_own():
    labels = ["-", "--", "---", "a", "a-b", "b", "b-a", '"-"', '"', '"-"-"']
    names = [confusion_name(gold, predicted) for gold in labels for predicted in labels]
    assert len(set(names)) == len(labels) ** 2
    assert confusion_name("a", "b") == "confusion-a-b"


@pytest.mark.parametrize("number", [1, 2, 5, 40])
def test_equals_scikit_learn(number):
    # Imported here: the workers below have no use for it.
    from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

    predictions, gold = pairs(number, classes=3)
    metric = evaluate(predictions, gold)
    names = "precision", "recall", "f1"
    known = {"labels": range(len(LABELS)), "zero_division": 0}
    expected = {"accuracy": accuracy_score(gold, predictions)}
    of_classes = precision_recall_fscore_support(gold, predictions, **known)
    overall = precision_recall_fscore_support(gold, predictions, average="macro", **known)
    for name, values, mean in zip(names, of_classes, overall, strict=False):
        expected[f"macro_{name}"] = mean
        expected |= {f"{name}-{label}": value for label, value in zip(LABELS, values, strict=True)}
    matrix = confusion_matrix(gold, predictions, labels=known["labels"])
    assert metric.total_counts().tolist() == matrix.tolist()
    for truth, row in zip(LABELS, matrix.tolist(), strict=True):
        expected |= {confusion_name(truth, guess): count for guess, count in zip(LABELS, row, strict=True)}
    assert metric.get_metric(reset=True) == pytest.approx(expected)
