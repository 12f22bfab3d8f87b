"""The part of elmo_tasks that AllenNLP sees, and the changes that AllenNLP gets from it."""

import subprocess
import sys

import pytest

from tests.conftest import environment

CHANGED = """
import sys
import allennlp.commands, allennlp.modules.elmo, allennlp.nn.checkpoint
from allennlp.common import Registrable

def state():
    # The names in AllenNLP's modules and classes, and their values
    values = {}
    for name in [name for name in sys.modules if name.split(".")[0] == "allennlp"]:
        for key, value in vars(sys.modules[name]).items():
            if key.startswith("__") or isinstance(value, dict | list | bool | int | type(sys)):
                continue
            values[name, key] = value
            if isinstance(value, type) and value.__module__ == name:
                values |= {(name, key, each): member for each, member in vars(value).items()}
    return {key: value for key, value in values.items() if key[-1] not in IGNORED}

IGNORED = ("_abc_impl", "_registry", "_reverse_registry", "__subclasshook__", "__module__", "__dict__")
before = state()
sys.modules["elmo_tasks.suite"] = sys  # else elmo_tasks imports it now
from elmo_tasks import compat
del sys.modules["elmo_tasks.suite"]
compat.make = lambda changes: None
import elmo_tasks.suite
after = state()
print(*(".".join(key) for key in before if after.get(key) is not before[key]))
"""


@pytest.mark.slow
def test_only_compat_changes_allennlp():
    """Without it, the names in AllenNLP's modules and classes keep their values."""
    command = [sys.executable, "-c", CHANGED]
    clean = environment() | {"ELMO_TASKS_PLUGIN": "0"}
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_change_is_made_once():
    """Also where the suite is imported again, after an import that ended in an error."""
    script = """
import sys, elmo_tasks.suite
from allennlp.training import GradientDescentTrainer
before = GradientDescentTrainer._train_epoch
del sys.modules["elmo_tasks.suite"]
import elmo_tasks.suite
assert GradientDescentTrainer._train_epoch is before
"""
    subprocess.run([sys.executable, "-c", script], env=environment(), check=True)
