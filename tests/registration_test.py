"""Whatever is imported first, AllenNLP knows our components. The other tests import AllenNLP first."""

import subprocess
import sys
import tomllib

import pytest

import elmo_tasks
from elmo_tasks import registration
from elmo_tasks.paths import bundled
from tests.conftest import environment

REGISTERED = """
import sys, elmo_tasks
assert "elmo_tasks.suite" in sys.modules
from allennlp.models import Model, archival
from elmo_tasks.archives import open_archive
assert Model.by_name("elmo_ner") is elmo_tasks.ner.NerModel
assert archival.load_archive is open_archive
"""


def run(script: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)


@pytest.mark.parametrize(
    "first",
    [
        """
import sys, elmo_tasks, importlib.util
assert importlib.util.find_spec("allennlp") and importlib.util.find_spec("elmo_tasks.ner")
assert not {"allennlp", "torch", "elmo_tasks.suite"} & set(sys.modules)
from allennlp.models.archival import load_archive
from elmo_tasks.archives import open_archive
assert load_archive is open_archive""",
        "from elmo_tasks.elmo.embedder import Elmo; from elmo_tasks import elmo; assert elmo.Elmo is Elmo",
    ],
)
def test_the_suite_is_registered(first):
    done = run(first + REGISTERED)
    assert done.returncode == 0, done.stderr


def test_the_light_core_without_allennlp():
    done = run("""
import sys
sys.modules["allennlp"] = None
from elmo_tasks import ElmoEmbedder
assert not any(name.startswith(("allennlp.", "spacy", "elmo_tasks.commands")) for name in sys.modules)
import elmo_tasks.ner
""")
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: elmo_tasks.ner needs AllenNLP, the extra elmo_tasks[allennlp]"
    )


def test_names_that_are_not_there():
    assert set(elmo_tasks.__all__) >= {"ElmoEmbedder", "ner"}
    with pytest.raises(AttributeError, match=r"module 'elmo_tasks' has no attribute 'no_such_name'"):
        elmo_tasks.no_such_name  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'elmo_tasks.elmo' has no attribute 'no_such_name'"):
        elmo_tasks.elmo.no_such_name  # noqa: B018


def test_the_contract_is_about_the_same_rooms():
    project = tomllib.loads((bundled("fixtures").resolve().parent / "pyproject.toml").read_text())
    (contract,) = (
        contract
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["name"] == "The rooms of registration.LIGHT need no AllenNLP"
    )
    rooms = {module.removeprefix("elmo_tasks.") for module in contract["source_modules"]}
    assert rooms == set(registration.LIGHT) - {"suite"}
