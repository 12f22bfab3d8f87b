"""The biLM in an archive. That archives stand alone is tested with the models and the token embedder."""

import json

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError

from elmo_tasks.elmo import Elmo
from elmo_tasks.elmo.archived import archived_block, archived_state, elmo_from_state
from tests.elmo.files import make_files


def test_a_block_of_the_config(tmp_path):
    assert archived_block(tmp_path, "model.elmo") is None
    (tmp_path / "config.json").write_text(json.dumps({"model": {"type": "a", "elmo": {"gamma": False}}}))
    assert archived_block(tmp_path, "model.elmo") == {"gamma": False}
    assert archived_block(tmp_path, "model.elmo.gamma.other") is None
    assert archived_block(tmp_path, "model.other") is None


def test_the_state_of_a_run_or_of_another_file(tmp_path):
    for number, name in enumerate(("best.th", "other.th")):
        torch.save({"weight": torch.tensor(number)}, tmp_path / name)
    assert archived_state(tmp_path)["weight"] == 0
    assert archived_state(tmp_path, tmp_path / "other.th")["weight"] == 1


def test_a_block_that_needs_no_files(tmp_path):
    options, weights = make_files(tmp_path)
    elmo = Elmo(options_file=str(options), weight_file=str(weights), layer_norm=True)
    state = {f"some.elmo.{name}": weight for name, weight in elmo.state_dict().items()}
    archived = {"options_file": "/lost", "weight_file": "/lost", "layer_norm": True}
    block = Params(dict(archived))
    elmo_from_state(block, state, "some.elmo.", archived=archived)
    again = Elmo.from_params(block)
    again.load_state_dict(elmo.state_dict())
    assert again.state_dict().keys() == elmo.state_dict().keys()
    block = Params(archived | {"vocabulary_file": "/words"})
    with pytest.raises(ConfigurationError, match=r"^a\.elmo\.vocabulary_file: found an override, '/words'"):
        elmo_from_state(block, state, "some.elmo.", path="a.elmo", archived=archived)
