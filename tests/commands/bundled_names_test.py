"""Commands find the files that come with the project by their names, from any folder."""

import sys

import allennlp.commands
import pytest

from elmo_tasks.common.files import bundled
from tests.conftest import command_process
from tests.ner.archives import write_run

OPTIONS, WEIGHTS = "fixtures/elmo/options.json", "fixtures/elmo/weights.hdf5"
COMMANDS = [
    "evaluate NER fixtures/ner/test.conll",
    "predict NER fixtures/ner/predict.jsonl --output-file out --silent",
    "elmo predict NER fixtures/ner/predict.jsonl out",
    f"elmo embed fixtures/elmo/sentences.txt out.hdf5 --options-file {OPTIONS} --weight-file {WEIGHTS}",
    "elmo inspect fixtures/ner/dev.conll --task ner",
]


@pytest.fixture(scope="module")
def ner(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("runs") / "ner"
    write_run(folder, seed=1, bilm=bundled("fixtures/elmo").resolve())
    return str(folder)


@pytest.mark.parametrize("command", COMMANDS)
def test_of_commands(command, ner, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(allennlp.commands, "import_plugins", lambda: None)
    monkeypatch.setattr(sys, "argv", ["allennlp", *command.replace("NER", ner).split()])
    with command_process():
        allennlp.commands.main(prog="allennlp")
