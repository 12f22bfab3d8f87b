import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.vectors.encoder import read_mixes, same_weights
from tests.elmo.files import frozen, make_files, read_bilm, trained
from tests.ner.archives import make_run


def test_learned_mixes(tmp_path):
    scores = {"input": [0.0, 1.0, -2.0], "output": [3.0, 3.0, 3.0]}
    run = make_run(tmp_path / "run", scores, placement="input+output")
    mixes = read_mixes(str(run))
    assert [(mix.model, mix.placement) for mix in mixes] == [("elmo_ner", "input"), ("elmo_ner", "output")]
    for mix, given in zip(mixes, scores.values(), strict=True):
        assert mix.shares() == pytest.approx(np.exp(given) / np.exp(given).sum())
        assert mix.gamma() == 1.5


@pytest.mark.slow
def test_weights_that_are_not_learned(tmp_path):
    (top,) = read_mixes(str(make_run(tmp_path / "top", {}, layers="top", gamma=False)))
    assert top.shares() == [0.0, 0.0, 1.0]
    assert top.gamma() == 1.0
    (function,) = read_mixes(str(make_run(tmp_path / "function", {}, weights="function")))
    assert function.shares() is None
    (frozen,) = read_mixes(str(make_run(tmp_path / "frozen", {}, weights="frozen")))
    assert sum(frozen.shares()) == pytest.approx(1)


def test_same_weights(tmp_path):
    (mix,) = read_mixes(str(make_run(tmp_path / "run", {"input": [0.0, 0.0, 0.0]})))
    model = read_bilm(*make_files(tmp_path / "bilm"))
    assert same_weights(mix.bilm, frozen(model, "bfloat16"))
    assert same_weights(mix.bilm, trained(model))
    with torch.no_grad():
        model.token_encoder.projection.bias[0] += 1
    assert not same_weights(mix.bilm, frozen(model))
    assert not same_weights(mix.bilm, frozen(read_bilm(*make_files(tmp_path / "other", n_layers=1))))


@pytest.mark.parametrize("scores", [None, {}])
def test_a_model_without_elmo(tmp_path, scores):
    run = make_run(tmp_path / "run", scores, placement="none")
    with pytest.raises(ConfigurationError, match=f"^{run}: .*elmo_ner"):
        read_mixes(str(run))
