"""The names of the files that come with the project are found from any folder, after the user's own."""

import sys
from pathlib import Path

import allennlp.commands
import pytest

from elmo_tasks.commands.base import Source
from elmo_tasks.common.files import bundled
from elmo_tasks.elmo.files import local_file
from tests.ner.archives import write_run

CORPUS, CONLL = "fixtures/evaluation/corpus.txt", "fixtures/ner/dev.conll"
OPTIONS, WEIGHTS = "fixtures/elmo/options.json", "fixtures/elmo/weights.hdf5"
COMMANDS = [
    "evaluate NER fixtures/ner/test.conll",
    "predict NER fixtures/ner/predict.jsonl --output-file out --silent",
    "elmo predict NER fixtures/ner/predict.jsonl out",
    f"elmo embed fixtures/elmo/sentences.txt out.hdf5 --options-file {OPTIONS} --weight-file {WEIGHTS}",
    f"elmo inspect {CONLL} --task ner",
]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def ner(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("runs") / "ner"
    write_run(folder, seed=1, bilm=bundled("fixtures/elmo").resolve())
    return str(folder)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("elsewhere")
def test_of_commands(command, ner, monkeypatch):
    monkeypatch.setattr(allennlp.commands, "import_plugins", lambda: None)
    monkeypatch.setattr(sys, "argv", ["allennlp", *command.replace("NER", ner).split()])
    allennlp.commands.main(prog="allennlp")


@pytest.mark.usefixtures("elsewhere")
def test_in_python():
    with local_file(OPTIONS) as path:
        assert path.samefile(bundled(OPTIONS))


@pytest.mark.usefixtures("elsewhere")
def test_files_of_the_user_come_first():
    Path(CORPUS).parent.mkdir(parents=True)
    Path(CORPUS).touch()
    assert Source(CORPUS) == CORPUS
