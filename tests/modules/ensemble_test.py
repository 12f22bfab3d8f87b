import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.ensemble import open_members
from elmo_tasks.elmo import FrozenBiLm, TrainedBiLm
from elmo_tasks.modules.elmo_model import EnsembleModel
from tests.elmo.files import make_files
from tests.ner.archives import dev_batch, write_run


@pytest.fixture
def bilm(tmp_path):
    make_files(tmp_path / "bilm")
    return tmp_path / "bilm"


def ensemble_of(*folders):
    members = [archive.model for archive in open_members(list(map(str, folders)))]
    return EnsembleModel(vocab=members[0].vocab, members=members).eval()


def count_runs(monkeypatch, kind=FrozenBiLm):
    """The biLM of each run from here on."""
    runs, encode = [], kind.encode
    monkeypatch.setattr(kind, "encode", lambda bilm, *inputs: runs.append(bilm) or encode(bilm, *inputs))
    return runs


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
    with pytest.raises(ConfigurationError, match="tag"):
        ensemble(**batch, tag=None)


@pytest.mark.parametrize("trainable", [False, True])
def test_equal_bilms_are_one_and_run_once(tmp_path, bilm, monkeypatch, trainable):
    models = [
        write_run(tmp_path / name, seed=seed, bilm=bilm, placement=placement, trainable=trainable)
        for seed, (name, placement) in enumerate([("a", "input"), ("b", "output"), ("c", "input+output")])
    ]
    batch = dev_batch(models[0], tmp_path / "a")
    expected, transitions = (
        torch.stack([model(**batch)[name] for model in models]).mean(dim=0)
        for name in ("emissions", "transitions")
    )
    ensemble = ensemble_of(*(tmp_path / name for name in "abc"))
    torch.testing.assert_close(ensemble(**batch)["transitions"], transitions)
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
