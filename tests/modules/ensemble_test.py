import math
from functools import reduce

import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.elmo import FrozenBiLm, TrainedBiLm
from elmo_tasks.ner.metric import ConllEval
from tests.elmo.files import make_files
from tests.modules.models import ensemble_of
from tests.ner.archives import dev_batch, write_run


@pytest.fixture
def bilm(tmp_path):
    make_files(tmp_path / "bilm")
    return tmp_path / "bilm"


def count_runs(monkeypatch, kind=FrozenBiLm):
    """The biLM of each run from here on."""
    runs, encode = [], kind.encode
    monkeypatch.setattr(kind, "encode", lambda bilm, *inputs: runs.append(bilm) or encode(bilm, *inputs))
    return runs


def scores_of_all(model, batch):
    """Returns the score of every sequence of tags for a batch of one sentence, `(tags, ..., tags)`."""
    outputs = model(**batch)
    emissions = outputs["emissions"][0].double()
    last = len(emissions) - 1

    def along(values, *axes):
        shape = [values.size(axes.index(axis)) if axis in axes else 1 for axis in range(last + 1)]
        return values.detach().double().view(shape).numpy()

    return reduce(
        np.add,
        [
            along(outputs["start"], 0),
            along(outputs["end"], last),
            *(along(emissions[token], token) for token in range(last + 1)),
            *(along(outputs["transitions"], token, token + 1) for token in range(last)),
        ],
    )


@pytest.mark.slow
def test_decodes_by_the_mean_of_the_members_scores_for_each_sequence(tmp_path, bilm):
    """Two models without a common size, by brute force."""
    models = [
        write_run(tmp_path / "a", seed=0, bilm=bilm),
        write_run(tmp_path / "b", seed=2, bilm=bilm, hidden_sizes=(5, 3, 7), placement="input+output"),
    ]
    ensemble = ensemble_of(tmp_path / "a", tmp_path / "b")
    batch = dev_batch(models[0], tmp_path / "a", slice(1, 2))
    assert batch["tags"].shape == (1, 4)
    members = [scores_of_all(model, batch) for model in models]
    scores = np.mean(members, axis=0)
    best = np.unravel_index(scores.argmax(), scores.shape)
    assert all(best != np.unravel_index(member.argmax(), member.shape) for member in members)

    outputs = ensemble(**batch)
    assert tuple(outputs["tags"][0].tolist()) == best
    gold = scores[tuple(batch["tags"][0].tolist())]
    log_sum = math.log(np.exp(scores - scores.max()).sum()) + scores.max()
    assert outputs["loss"].item() == pytest.approx(log_sum - gold, rel=1e-5)
    readable = ensemble.make_output_human_readable(outputs)
    expected = ConllEval()
    expected(readable["tags"], [batch["metadata"][0].gold_tags])
    assert ensemble.get_metrics(reset=True) == expected.get_metric()


def test_one_model_twice_is_the_model(tmp_path, bilm):
    model = write_run(tmp_path / "a", seed=1, bilm=bilm)
    ensemble = ensemble_of(tmp_path / "a", tmp_path / "a")
    batch = dev_batch(model, tmp_path / "a")
    expected, found = model(**batch), ensemble(**batch)
    for name in ("emissions", "tags", "loss"):
        assert torch.equal(found[name], expected[name])
    # Without the gold tags, and of a sentence alone
    del batch["tags"]
    assert "loss" not in ensemble(**batch)
    with pytest.raises(ConfigurationError, match="elmo_ner"):
        ensemble(**batch, tag=None)


@pytest.mark.parametrize("trainable", [False, True])
def test_equal_bilms_are_one_and_run_once(tmp_path, bilm, monkeypatch, trainable):
    models = [
        write_run(tmp_path / name, seed=seed, bilm=bilm, placement=placement, trainable=trainable)
        for seed, (name, placement) in enumerate([("a", "input"), ("b", "output"), ("c", "input+output")])
    ]
    batch = dev_batch(models[0], tmp_path / "a")
    expected = torch.stack([model(**batch)["emissions"] for model in models]).mean(dim=0)
    ensemble = ensemble_of(*(tmp_path / name for name in "abc"))
    assert len({id(member.elmo.bilm) for member in ensemble.members}) == 1
    runs = count_runs(monkeypatch, TrainedBiLm if trainable else FrozenBiLm)
    for _ in range(2):
        torch.testing.assert_close(ensemble(**batch)["emissions"], expected, atol=1e-5, rtol=0)
    assert len(runs) == 2
    # Nothing is kept for a member on its own
    for _ in range(2):
        ensemble.first(**batch)
    assert len(runs) == 4


def test_other_bilms_and_other_starts_run_on_their_own(tmp_path, bilm, monkeypatch):
    make_files(tmp_path / "larger", dim=14, projection_dim=5)
    models = [
        write_run(tmp_path / "a", seed=1, bilm=bilm),
        write_run(tmp_path / "b", seed=2, bilm=tmp_path / "larger"),
        write_run(tmp_path / "c", seed=3, bilm=bilm),
    ]
    # As if the third had been trained with an initial state
    models[2].elmo.start_hidden.fill_(0.5)
    torch.save(models[2].state_dict(), tmp_path / "c/best.th")
    batch = dev_batch(models[0], tmp_path / "a")
    expected = torch.stack([model(**batch)["emissions"] for model in models]).mean(dim=0)
    ensemble = ensemble_of(*(tmp_path / name for name in "abc"))
    runs = count_runs(monkeypatch)
    torch.testing.assert_close(ensemble(**batch)["emissions"], expected, atol=1e-5, rtol=0)
    first, second, third = (member.elmo.bilm for member in ensemble.members)
    assert first is third
    assert runs == [first, second, third]


def test_state_is_carried_for_each_member(tmp_path, bilm):
    models = [write_run(tmp_path / name, seed=i, bilm=bilm, stateful=True) for i, name in enumerate("ab")]
    ensemble = ensemble_of(tmp_path / "a", tmp_path / "b")
    batch = dev_batch(models[0], tmp_path / "a")
    emissions = []
    for _ in range(2):
        expected = torch.stack([model(**batch)["emissions"] for model in models]).mean(dim=0)
        emissions.append(ensemble(**batch)["emissions"])
        torch.testing.assert_close(emissions[-1], expected, atol=1e-5, rtol=0)
    assert not torch.allclose(*emissions)
