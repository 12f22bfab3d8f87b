"""Commands find the files that come with the project by their names, from any folder."""

import sys

import allennlp.commands
import pytest

from tests.conftest import command_process

OPTIONS, WEIGHTS = "fixtures/elmo/options.json", "fixtures/elmo/weights.hdf5"
COMMANDS = [
    "evaluate NER fixtures/ner/test.conll",
    "predict NER fixtures/ner/predict.jsonl --output-file out --silent",
    "elmo predict NER fixtures/ner/predict.jsonl out",
    f"elmo embed fixtures/elmo/sentences.txt out.hdf5 --options-file {OPTIONS} --weight-file {WEIGHTS}",
    "elmo inspect fixtures/ner/dev.conll --task ner",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_of_commands(command, ner_archive, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(allennlp.commands, "import_plugins", lambda: None)
    monkeypatch.setattr(sys, "argv", ["allennlp", *command.replace("NER", ner_archive).split()])
    with command_process():
        allennlp.commands.main(prog="allennlp")
