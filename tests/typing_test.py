"""Type checkers read the signatures of the package."""

import subprocess
import sys
from pathlib import Path

import pytest

import elmo_tasks

pytest.importorskip("mypy")
CONFIG = """
[mypy]
follow_imports = skip
ignore_missing_imports = True
[mypy-elmo_tasks.*,os,pathlib]
follow_imports = silent
"""
"""Other packages are skipped, as they would take most of the time."""
USERS_FILE = """
from pathlib import Path

import elmo_tasks
from elmo_tasks import Elmo, ElmoEmbedder, ElmoVectorizer
from elmo_tasks.elmo.token_embedder import ElmoTokenEmbedder

elmo = Elmo("options.json", weight_file=None, placement="input+output", dropout=0.5, mix_l2=None)
dim: int = elmo.dim
ids = elmo.padded_ids([["A", "cat"]])
elmo(ids).input.sum() + elmo.mixes["input"].scores.sum()
task = elmo_tasks.ner
folder = Path("biLM")
Elmo(folder / "options.json", folder / "weights.hdf5", vocabulary_file=folder / "vocab.txt")
ElmoTokenEmbedder(weight_file=folder, activations=folder)
ElmoVectorizer(weight_file=folder)
Elmo(optoins_file="x")
Elmo(dropout="a lot")
Elmo(placement="inputs")
ElmoEmbedder(weigth_file="x")
ElmoVectorizer(poling="mean")
ElmoVectorizer(pooling="sum")
elmo(ids, ids)
elmo(ids).inputs
"""


@pytest.mark.slow
def test_mypy_sees_misspelt_parameters_and_wrong_types(tmp_path):
    (tmp_path / "mypy.ini").write_text(CONFIG)
    (tmp_path / "user.py").write_text(USERS_FILE)
    environment = {"MYPYPATH": str(Path(elmo_tasks.__file__).parents[1])}
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), "user.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    expected = ["optoins_file", '"dropout"', '"placement"', "weigth_file", "poling", '"pooling"']
    expected += ['"__call__"', '"inputs"']
    first = len(USERS_FILE.splitlines()) + 1 - len(expected)
    assert len(errors) == len(expected), done.stdout
    for i, (error, part) in enumerate(zip(errors, expected, strict=True)):
        assert error.startswith(f"user.py:{first + i}: ")
        assert part in error
    assert (Path(elmo_tasks.__file__).parent / "py.typed").exists()
