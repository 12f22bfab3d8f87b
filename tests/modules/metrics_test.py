"""The base of all metrics, and that each counts the examples of all workers."""

import json
import random
from itertools import chain
from pathlib import Path

import pytest
import torch

from elmo_tasks.modules.metrics import ClassificationMetric, LabelsMetric, confusion_name
from elmo_tasks.ner.metric import ConllEval
from elmo_tasks.squad.metric import SquadMetric
from tests.forked import spawn


def classes(*labels: int) -> torch.Tensor:
    return torch.tensor(labels)


ENTITIES = [
    [[([["B-A", "O"]], [["B-A", "O"]])], []],
    [[([["B-A"]], [["B-B"]])], [([["O", "B-C"]], [["B-C", "O"]])]],
]
CLASSES = [
    [[(classes(0, 1), classes(0, 2))], [(classes(2), classes(2))]],
    [[(classes(1, 1), classes(1, 0))], [(classes(0, 0, 2), classes(0, 1, 2))]],
]
ANSWERS = [[[("cat", ["cat"]), ("big cat", ["cat"])], [("", [])]], [[("dog", ["cat"])], [("a dog", ["dog"])]]]
SHARED = {
    "entities": (ConllEval, ENTITIES),
    "classes": (lambda: ClassificationMetric(["a", "b", "c"]), CLASSES),
    "answers": (lambda: SquadMetric("2.0"), ANSWERS),
}
"""A metric, and the calls that each of two workers makes in each of two steps."""


def worker(rank: int, folder: Path) -> None:
    """Looks at the metrics after each step, as the trainer does."""
    rendezvous = f"file://{folder}/rendezvous"
    torch.distributed.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=2)
    seen = {}
    for name, (make, calls) in SHARED.items():
        metric, seen[name] = make(), []
        for step in calls[rank]:
            for call in step:
                metric(*call)
            seen[name].append(metric.get_metric())
        seen[name] += [metric.get_metric(reset=True), metric.get_metric()]
    (folder / f"{rank}.json").write_text(json.dumps(seen))
    torch.distributed.destroy_process_group()


def test_two_workers_equal_one(tmp_path):
    spawn(worker, args=(tmp_path,), nprocs=2)
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for name, (make, calls) in SHARED.items():
        single, expected = make(), []
        for step in zip(*calls, strict=True):
            for call in chain(*step):
                single(*call)
            expected.append(single.get_metric())
        expected += [single.get_metric(reset=True), single.get_metric()]
        assert [each[name] for each in found] == [expected] * 2


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
    # By default over the classes that occur
    overall = precision_recall_fscore_support(gold, predictions, average="macro", zero_division=0)
    for name, values, mean in zip(names, of_classes, overall, strict=False):
        expected[f"macro_{name}"] = mean
        expected |= {f"{name}-{label}": value for label, value in zip(LABELS, values, strict=True)}
    matrix = confusion_matrix(gold, predictions, labels=known["labels"])
    assert metric.total_counts().tolist() == matrix.tolist()
    for truth, row in zip(LABELS, matrix.tolist(), strict=True):
        expected |= {confusion_name(truth, guess): count for guess, count in zip(LABELS, row, strict=True)}
    assert metric.get_metric(reset=True) == pytest.approx(expected)


@pytest.mark.parametrize("number", [1, 2, 5, 40])
def test_several_labels_equal_scikit_learn(number):
    from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

    generator = torch.Generator().manual_seed(number)
    predictions, gold = torch.rand(2, number, len(LABELS), generator=generator) > 0.6
    predictions[:, -1] = gold[:, -1] = False
    metric = LabelsMetric(LABELS)
    for rows in (slice(number // 2), slice(number // 2, None)):
        metric(predictions[rows], gold[rows])
    of_labels = precision_recall_fscore_support(gold, predictions, zero_division=0)[:3]
    occurs = (gold | predictions).any(dim=0).numpy()
    expected = {"accuracy": accuracy_score(gold, predictions)}
    expected["micro_f1"] = f1_score(gold, predictions, average="micro", zero_division=0)
    for name, values in zip(("precision", "recall", "f1"), of_labels, strict=True):
        expected |= {f"{name}-{label}": value for label, value in zip(LABELS, values, strict=True)}
        expected[f"macro_{name}"] = values[occurs].mean() if occurs.any() else 0
    assert metric.get_metric(reset=True) == pytest.approx(expected)
