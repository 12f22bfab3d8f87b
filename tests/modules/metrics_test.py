from collections import Counter
from dataclasses import dataclass

from elmo_tasks.modules import metrics
from elmo_tasks.modules.metrics import CountingMetric, LabelCounts


@dataclass(kw_only=True)
class Counts(LabelCounts):
    sentences: int = 0


class Correct(CountingMetric[Counts]):
    def no_counts(self) -> Counts:
        return Counts()

    def __call__(self, label: str) -> None:
        self._counts += Counts(sentences=1, correct=Counter([label]))

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        return {"sentences": self.total_counts(reset=reset).sentences}


def test_calls_add_up_until_reset():
    metric = Correct()
    metric("a")
    metric("b")
    assert metric.total_counts() == Counts(sentences=2, correct=Counter("ab"))
    assert metric.get_metric(reset=True) == {"sentences": 2}
    assert metric.get_metric() == {"sentences": 0}


def test_all_workers_are_counted(monkeypatch):
    here, elsewhere = Correct(), Correct()
    here("a")
    elsewhere("b")
    elsewhere("b")
    others = elsewhere.total_counts()
    with monkeypatch.context() as patch:
        patch.setattr(metrics, "gather_from_workers", lambda counts: [counts, others])
        assert here.total_counts(reset=True) == Counts(sentences=3, correct=Counter("abb"))
    assert here.total_counts() == Counts()
    assert elsewhere.total_counts().sentences == 2


def test_labels_and_scores():
    counts = LabelCounts(gold=Counter("aab"), predicted=Counter("bc"), correct=Counter("b"))
    assert counts.labels() == ["a", "b", "c"]
    assert counts.scores(["a", "b"]) == {"precision": 1.0, "recall": 1 / 3, "f1": 0.5}
    assert counts.scores("abc") == {"precision": 0.5, "recall": 1 / 3, "f1": 0.4}
    assert counts.scores([]) == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
