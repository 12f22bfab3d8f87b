"""A release says the same of itself in several files."""

import json
import re
from pathlib import Path

import pytest
import yaml

import elmo_tasks

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / "setup.py").exists(), reason="the tests of an installed wheel have no project"
)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_version():
    citation = yaml.safe_load(read("CITATION.cff"))
    version, date = re.findall(r"(?m)^## \[(\d\S*)\] - (\S+)$", read("CHANGELOG.md"))[0]
    assert version == elmo_tasks.__version__
    assert (citation["version"], str(citation["date-released"])) == (version, date)


def test_the_pictures_are_of_this_version_and_its_model():
    version, card = read("docs/images/page.txt").splitlines()
    assert version == elmo_tasks.__version__
    assert json.loads(read("models/elmo_tasks_models/models.json"))["ner"]["score"] in card


def test_the_conda_environment_asks_for_the_python_that_we_test():
    packages = yaml.safe_load(read("requirements/conda.yml"))["dependencies"]
    assert "python=3.11" in packages
    assert packages[-1]["pip"][-1] == "elmo_tasks[allennlp,models]"
