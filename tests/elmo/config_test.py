import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError

from elmo_tasks.elmo import Elmo
from elmo_tasks.elmo.config import ElmoUse


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"stateful": True, "initial_state": "x"},
            "initial_state is where a sentence starts with stateful: f",
        ),
        (
            {"stateful": True, "activations": "x"},
            "activations are of sentences on their own: not with statef",
        ),
        (
            {"trainable": True, "activations": "x"},
            "activations are of a frozen biLM: not with trainable: true",
        ),
        (
            {"trainable": True, "precision": "bfloat16"},
            "precision: bfloat16 is for a frozen biLM: not with tra",
        ),
    ],
)
def test_what_does_not_go_together(keys, message):
    with pytest.raises(ConfigurationError, match=f"^{message}"):
        ElmoUse(**keys)
    with pytest.raises(ConfigurationError, match=f"^{message}"):
        Elmo(**keys)
    block = Params({"model": {"elmo": keys}}).pop("model").pop("elmo")
    with pytest.raises(ConfigurationError, match=rf"^model\.elmo\.{message}"):
        Elmo.from_params(block)
