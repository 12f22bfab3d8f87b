from types import SimpleNamespace

import pytest

from benchmarks import coref
from elmo_tasks.common.files import bundled
from elmo_tasks.coref.reader import CorefReader
from elmo_tasks.training.experiments import Run


class Oracle:
    """Proposes all gold clusters of two mentions or more."""

    def eval(self):
        return self

    def forward_on_instance(self, instance):
        return {"clusters": instance["metadata"].metadata.clusters}


def test_gold_clusters_of_one_mention_count_as_missed_in_one_score_alone(tmp_path, monkeypatch):
    dev = bundled("fixtures/coref/dev.conll")
    archive = SimpleNamespace(model=Oracle(), validation_dataset_reader=CorefReader(singletons=False))
    monkeypatch.setattr(coref, "open_archive", lambda path: archive)
    run = Run("ours", 13, {"validation_data_path": str(dev)}, tmp_path)
    scores = coref.Coref().scores(run)
    assert scores.pop(coref.WITHOUT_SINGLETONS) == pytest.approx(1)
    assert 0.5 < scores.pop("average F1") < 0.98
    assert not scores
