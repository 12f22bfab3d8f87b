import json
import random

import pytest
import torch

from elmo_tasks.modules.metrics import ClassificationMetric, confusion_name
from tests.forked import spawn

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
    assert metric.confusion.tolist() == matrix.tolist()
    for truth, row in zip(LABELS, matrix.tolist(), strict=True):
        expected |= {confusion_name(truth, guess): count for guess, count in zip(LABELS, row, strict=True)}
    assert metric.get_metric(reset=True) == pytest.approx(expected)


# Two workers share the instances; each sees the counts of both so far.


def worker(rank, folder):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2
    )
    predictions, gold = (torch.tensor(values) for values in pairs(20, classes=4))
    metric = ClassificationMetric(LABELS)
    seen = []
    for step in (0, 10):
        own = slice(step + rank, step + 10, 2)
        metric(predictions[own], gold[own])
        seen.append([metric.confusion.tolist(), metric.get_metric()])
    results = [seen, metric.get_metric(reset=True), metric.get_metric()]
    (folder / f"{rank}.json").write_text(json.dumps(results))
    torch.distributed.destroy_process_group()


def test_two_workers_equal_one(tmp_path):
    spawn(worker, args=(tmp_path,), nprocs=2)
    predictions, gold = pairs(20, classes=4)
    for rank in (0, 1):
        seen, final, after_reset = json.loads((tmp_path / f"{rank}.json").read_text())
        for (confusion, metrics), number in zip(seen, (10, 20), strict=True):
            single = evaluate(predictions[:number], gold[:number])
            assert confusion == single.confusion.tolist()
            assert metrics == single.get_metric()
        assert final == evaluate(predictions, gold).get_metric(reset=True)
        assert after_reset["accuracy"] == 0.0
