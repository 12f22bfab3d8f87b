"""Names of weights, by AllenNLP and by us."""

import torch

from elmo_tasks.drop_in.names import from_allennlp, to_allennlp
from tests.elmo.files import random_bilm


def test_there_and_back():
    bilm = random_bilm()
    weights = {f"a.{name}": weight for name, weight in bilm.state_dict().items()}
    state = dict(weights) | {"b.token_encoder.embedding": torch.zeros(1)}
    to_allennlp(state, "a.", bilm.options)
    assert not weights.keys() & state.keys()
    assert "b.token_encoder.embedding" in state
    from_allennlp(state, "a.", bilm.options)
    assert state.keys() - weights.keys() == {"b.token_encoder.embedding"}
    assert all(torch.equal(state[name], weight) for name, weight in weights.items())


def test_what_is_not_whole_stays():
    bilm = random_bilm()
    state = {f"a.{name}": weight for name, weight in bilm.state_dict().items()}
    to_allennlp(state, "a.", bilm.options)
    half = "a._elmo_lstm.forward_layer_0.input_linearity.weight"
    del state["a._elmo_lstm.forward_layer_0.state_linearity.weight"]
    from_allennlp(state, "a.", bilm.options)
    assert half in state
    assert "a.lstm.directions.0.0.weight" not in state
