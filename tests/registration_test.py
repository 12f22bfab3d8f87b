"""AllenNLP finds our components, whatever is imported first. The other tests import AllenNLP first."""

import subprocess
import sys
from importlib import import_module

import pytest
import torch

import elmo_tasks
from elmo_tasks import registration
from elmo_tasks.common.files import bundled
from tests import fresh
from tests.conftest import environment
from tests.errors import mentions
from tests.ner.archives import write_run

REGISTERED = """
import sys, elmo_tasks
assert "elmo_tasks.suite" in sys.modules
from allennlp.models import Model, archival
from elmo_tasks.archives import open_archive
assert Model.by_name("elmo_ner") is elmo_tasks.ner.model.NerModel
assert archival.load_archive is open_archive
"""


def run(script: str) -> subprocess.CompletedProcess:
    """Runs a script in a new interpreter, which ends without unloading PyTorch: that takes a second."""
    script += "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)"
    return subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)


@pytest.mark.slow
def test_a_model_in_a_notebook(tmp_path):
    """Importing elmo_tasks is enough; it imports nothing until AllenNLP is imported."""
    write_run(tmp_path / "run", seed=0, bilm=bundled("fixtures/elmo").resolve())
    done = run(f"""
import sys, elmo_tasks, importlib.util
assert importlib.util.find_spec("allennlp") and importlib.util.find_spec("elmo_tasks.ner")
assert not {{"allennlp", "torch", "elmo_tasks.suite"}} & set(sys.modules)
from allennlp.models.archival import load_archive
from elmo_tasks.archives import open_archive
assert load_archive is open_archive
from allennlp.predictors import Predictor
print(Predictor.from_path({str(tmp_path / "run")!r}).predict('Ana flew to Lisbon.')['tokens'])
{REGISTERED}""")
    assert done.returncode == 0, done.stderr
    assert "['Ana', 'flew', 'to', 'Lisbon', '.']" in done.stdout


def test_the_suite_is_registered_by_a_package_of_it():
    first = """
import sys
from importlib import import_module
from elmo_tasks import Elmo
assert "allennlp" not in sys.modules
from elmo_tasks.elmo import token_embedder
assert token_embedder.Elmo is Elmo"""
    done = fresh.run(first + REGISTERED)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("first", ["spacy", "allennlp.models"])
def test_allennlp_is_its_own_without_the_plugin(first):
    """spaCy imports our package for its components. A task of ours registers the suite all the same."""
    pytest.importorskip("spacy")
    done = fresh.run(f"""
import os, sys
os.environ["ELMO_TASKS_PLUGIN"] = "0"
import {first}, spacy
spacy.blank("en")
from allennlp.models import archival
assert "elmo_tasks.libraries.spacy_archives" in sys.modules
assert "elmo_tasks.suite" not in sys.modules
assert archival.load_archive.__module__ == "allennlp.models.archival"
import elmo_tasks
elmo_tasks.ner
{REGISTERED}""")
    assert done.returncode == 0, done.stderr


AT_ONCE = """
import threading
import elmo_tasks
statements = {statements}
barrier, errors = threading.Barrier(len(statements)), []

def run(statement):
    barrier.wait()
    try:
        exec(statement)
        from allennlp.models import Model, archival
        from elmo_tasks.archives import open_archive
        assert archival.load_archive is open_archive
        Model.by_name("elmo_ner"), Model.by_name("elmo_snli")
    except BaseException as error:
        errors.append(f"{{statement}}: {{error!r}}")

threads = [threading.Thread(target=run, args=(statement,), daemon=True) for statement in statements]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(timeout=100)
assert not errors, errors
assert not any(thread.is_alive() for thread in threads), "they wait for each other"
"""
LOAD, OURS = "from elmo_tasks import load", "from elmo_tasks.pipeline.trained import load"


@pytest.mark.parametrize(
    "statements",
    [
        (LOAD, "import allennlp"),
        ("from allennlp.common import Params", OURS),
        (*[LOAD] * 6, "import elmo_tasks", "import allennlp"),
    ],
    ids=["load", "module", "eight"],
)
def test_threads_at_once(statements):
    """Whatever each imports first, it finds the whole suite."""
    done = fresh.run(AT_ONCE.format(statements=statements))
    assert done.returncode == 0, done.stderr


TRAINED = """
import torch
from elmo_tasks import Elmo
elmo = Elmo(mix_l2=0.1)
ids = elmo.padded_ids([["Ana", "plays", "the", "cello", "."], ["A", "play"]])
optimizer = torch.optim.SGD(elmo.parameters(), lr=0.1)
vectors = [elmo(ids).input]
(vectors[0].square().mean() + elmo.penalty()).backward()
optimizer.step()
vectors.append(elmo(ids).input)
"""


def test_the_light_core_without_allennlp(tmp_path):
    done = fresh.run(f"""
import sys
from importlib import import_module
sys.modules["allennlp"] = None
from elmo_tasks import ElmoEmbedder
{TRAINED}
torch.save([each.detach() for each in vectors], {str(tmp_path / "vectors")!r})
try:
    import elmo_tasks.jobs.embed
except ModuleNotFoundError as error:
    assert error.name in ("ray", "pyarrow"), error
heavy = "allennlp.", "spacy", "elmo_tasks.commands", "elmo_tasks.common.strict_params", "elmo_tasks.suite"
assert not any(name.startswith(heavy) for name in sys.modules)
for block in {{"dropout": 1.0}}, {{"trainable": True, "precision": "bfloat16"}}:
    try:
        Elmo(**block)
    except ValueError as error:
        print(type(error).__name__, error)
try:
    Elmo.from_params({{}})
except ModuleNotFoundError as error:
    print(error)
import elmo_tasks.ner
""")
    error = done.stderr.splitlines()[-1]
    assert mentions(error, "ModuleNotFoundError", "elmo_tasks.ner", "elmo_tasks[allennlp]")
    dropout, precision, params = done.stdout.splitlines()
    assert mentions(dropout, "ElmoError", "dropout", "1.0")
    assert mentions(precision, "ElmoError", "precision", "bfloat16", "trainable")
    assert mentions(params, "elmo_tasks.common.strict_params", "elmo_tasks[allennlp]")
    suite: dict = {}
    exec(TRAINED, suite)
    first, second = torch.load(tmp_path / "vectors")
    assert not first.equal(second)
    torch.testing.assert_close([first, second], suite["vectors"])


def test_neither_h5py_nor_lmdb_is_needed(tmp_path):
    """Without them, what comes with the project can be used, and what needs them says so."""
    done = fresh.run(f"""
import sys
sys.modules["h5py"] = sys.modules["lmdb"] = None
import elmo_tasks
embedder = elmo_tasks.ElmoEmbedder()
assert embedder.embed_sentence(["A", "cat"]).shape[1] == 2
assert elmo_tasks.load("ner")("Ada Lovelace lived in London.")[0].text == "Ada Lovelace"
for use in (
    lambda: embedder.embed_file(["A cat"], {str(tmp_path / "out.hdf5")!r}),
    lambda: elmo_tasks.Elmo(activations={str(tmp_path / "kept")!r}),
):
    try:
        use()
    except ValueError as error:
        print(type(error).__name__, error)
""")
    assert done.returncode == 0, done.stderr
    h5py, lmdb = done.stdout.splitlines()
    assert mentions(h5py, "ElmoError", "out.hdf5: ", "pip install h5py")
    assert mentions(lmdb, "ElmoError", "activations", "pip install lmdb")
    assert not list(tmp_path.iterdir())


def test_names_that_are_not_there():
    assert set(elmo_tasks.__all__) >= {"ElmoEmbedder", "ner"}
    with pytest.raises(AttributeError, match=r"'elmo_tasks'.*'no_such_name'"):
        elmo_tasks.no_such_name  # noqa: B018
    with pytest.raises(AttributeError, match=r"'elmo_tasks.elmo'.*'no_such_name'"):
        elmo_tasks.elmo.no_such_name  # noqa: B018


@pytest.mark.parametrize(
    ("package", "name", "module"),
    [
        ("ner", "NerReader", "reader"),
        ("coref", "CorefScores", "metric"),
        ("modules", "EnsembleModel", "elmo_model"),
        ("training", "ElmoBucketSampler", "sampling"),
    ],
)
def test_names_that_packages_had_in_version_0_4(package, name, module):
    for first in ("", "import allennlp.models; "):
        done = fresh.run(f"{first}from elmo_tasks.{package} import {name}")
        assert mentions(done.stderr, "ImportError: ", name, f"elmo_tasks.{package}.{module}")
    assert not hasattr(import_module(f"elmo_tasks.{package}"), f"{name}s")


@pytest.mark.parametrize("name", registration.MOVED)
def test_modules_of_version_0_4(name):
    place = registration.MOVED[name]
    assert import_module(place)
    assert mentions(fresh.run(f"import {name}.text").stderr, "ModuleNotFoundError: ", name, place)
