import json
import random
import string
from itertools import chain

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training.metrics import Metric

from elmo_tasks.squad.metric import SquadMetric, normalize
from tests.squad.official import OFFICIAL, WORDS


def test_normalisation_is_the_official_one():
    generator = random.Random(0)
    letters = string.printable + "".join(WORDS)
    for _ in range(3000):
        text = " ".join(generator.choices(WORDS, k=4)) + "".join(generator.choices(letters, k=5))
        assert normalize(text) == OFFICIAL.normalize_answer(text)


@pytest.mark.parametrize(
    ("predicted", "gold", "version", "expected"),
    [
        ("the cat", ["A cat!"], "1.1", (1, 1.0)),
        ("big cat", ["cat", "a big cat sat"], "1.1", (0, 0.8)),
        ("cat cat", ["cat"], "1.1", (0, 2 / 3)),
        ("the", ["a"], "1.1", (1, 0.0)),
        ("the", ["a"], "2.0", (1, 1.0)),
        ("", ["cat"], "2.0", (0, 0.0)),
        ("", [], "2.0", (1, 1.0)),
        ("cat", [], "2.0", (0, 0.0)),
    ],
)
def test_worked_examples(predicted, gold, version, expected):
    metric = SquadMetric(version)
    metric(predicted, gold)
    assert metric.scores(scale=1.0) == (1, *map(pytest.approx, expected))


def test_kinds_and_reset():
    metric = Metric.from_params(Params({"type": "elmo_squad", "version": "2.0"}))
    for predicted, gold in (("cat", ["cat"]), ("", []), ("dog", []), ("a big dog", ["dog"])):
        metric(predicted, gold)
    assert metric.get_metric() == {"exact_match": 0.5, "f1": pytest.approx((1 + 1 + 0 + 2 / 3) / 4)}
    metrics = metric.get_metric(reset=True)
    assert metrics["exact_match-HasAns"] == 0.5
    assert metrics["f1-HasAns"] == pytest.approx(5 / 6)
    assert metrics["exact_match-NoAns"] == metrics["f1-NoAns"] == 0.5
    assert metric.get_metric() == {"exact_match": 0.0, "f1": 0.0}
    assert set(SquadMetric().get_metric(reset=True)) == {"exact_match", "f1"}


def test_wrong_use():
    with pytest.raises(ConfigurationError, match=r"version: found '3', expected one of 1\.1, 2\.0"):
        SquadMetric("3")
    with pytest.raises(ConfigurationError, match=r"without gold answers, which only SQuAD 2\.0 has"):
        SquadMetric()("cat", [])


EXAMPLES = [[("cat", ["cat"]), ("big cat", ["cat"])], [("", []), ("dog", ["cat"]), ("a dog", ["dog"])]]


def worker(rank, folder):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2
    )
    metric = SquadMetric("2.0")
    for example in EXAMPLES[rank]:
        metric(*example)
    (folder / f"{rank}.json").write_text(json.dumps([metric.get_metric(), metric.get_metric(reset=True)]))
    torch.distributed.destroy_process_group()


def test_two_workers_equal_one(tmp_path):
    torch.multiprocessing.start_processes(worker, args=(tmp_path,), nprocs=2, start_method="fork")
    single = SquadMetric("2.0")
    for example in chain(*EXAMPLES):
        single(*example)
    expected = [single.get_metric(), single.get_metric(reset=True)]
    for rank in (0, 1):
        assert json.loads((tmp_path / f"{rank}.json").read_text()) == expected
