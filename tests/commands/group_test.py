"""`allennlp elmo`: the group, how verbs end, what they do not overwrite; and `doctor`."""

import re
import sys
from importlib import metadata
from pathlib import Path

import allennlp.commands
import pytest
from allennlp.common import file_utils
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands import VERBS, doctor
from elmo_tasks.commands.embed import Embed
from elmo_tasks.compat.command import Terminated
from tests.conftest import command_process
from tests.elmo.files import needs_h5py


class TestHelp:
    def shown(self, elmo, capsys, *command: str) -> str:
        assert elmo(*command, "--help") == 0
        return capsys.readouterr().out

    def test_lists_the_verbs(self, elmo, capsys):
        shown = self.shown(elmo, capsys)
        assert elmo() == 2
        assert capsys.readouterr().err == shown
        listed = shown.index("VERB --help")
        for purpose, verbs in VERBS.items():
            listed = shown.index(f"\n{purpose}:\n", listed)
            for verb in verbs:
                line = re.compile(rf"(?m)^ +{verb.name}\s+{re.escape(verb.help)}$").search(shown, listed)
                assert line is not None
                listed = line.end()

    def test_shows_defaults(self, elmo, capsys):
        shown = " ".join(self.shown(elmo, capsys, "embed").split())
        assert "(default = cpu)" in shown
        assert "(default: the biLM that" in shown
        assert "(default = float32)" in shown
        assert "SUPPRESS" not in shown


@pytest.mark.parametrize("arguments", [(), ("encode",), ("embed",), ("embed", "in", "out", "--dtype", "x")])
def test_wrong_usage(elmo, capsys, arguments):
    assert elmo(*arguments) == 2
    assert "usage: allennlp elmo" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (ConfigurationError("line 3: bad"), 1, "error: line 3: bad"),
        (OSError(28, "No space left on device", "out"), 1, "error: out: No space left on device"),
        (OSError("disk gone"), 1, "error: disk gone"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (Terminated(), 143, "terminated"),
    ],
)
@pytest.mark.parametrize("note", [False, True])
def test_what_stops_a_verb_is_one_line(elmo, capsys, monkeypatch, error, code, shown, note):
    def stop(*arguments):
        if note:
            error.add_note("do so")
        raise error

    monkeypatch.setattr(Embed, "run", stop)
    assert elmo("embed", "in", "out") == code
    assert capsys.readouterr().err == (f"{shown}; do so\n" if note else f"{shown}\n")


@pytest.mark.parametrize("position", [0, 1, 2, 3, 4])
def test_packages_are_imported(elmo, tmp_path, monkeypatch, position):
    """`--include-package` stands before a verb, as AllenNLP has it, or anywhere after."""
    (tmp_path / "of_ones_own.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Embed, "run", lambda *arguments: None)
    words = ["embed", "in", "out", "--force"]
    words[position:position] = ["--include-package", "of_ones_own"]
    assert elmo(*words) == 0
    assert sys.modules.pop("of_ones_own", None) is not None


@pytest.mark.parametrize(
    "arguments",
    [
        "ensemble {kept} {other} -o {kept}",
        "explain {other} {page} {kept}",
        "predict {other} {link} {kept}",
        "intrinsic --wordsim {other} --vectors {other} --vectors {kept} -o {kept}",
        "export {other} {folder} --average-with {folder}",
    ],
)
def test_what_is_read_is_not_overwritten(elmo, tmp_path, capsys, arguments):
    files = {"kept": "a.csv", "other": "b.csv", "page": "a.csv.html"}
    paths = {name: tmp_path / file for name, file in files.items()}
    for path in paths.values():
        path.write_text("mine")
    paths |= {"folder": tmp_path, "link": tmp_path / "link"}
    paths["link"].symlink_to(paths["kept"])
    assert elmo(*(word.format(**paths) for word in arguments.split()), "--force") == 1
    assert "is the input" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {*files.values(), "link"}
    assert {path.read_text() for path in tmp_path.iterdir()} == {"mine"}


class TestDoctor:
    def test_every_section_has_facts(self, elmo, tmp_path, monkeypatch, capsys):
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "file").write_bytes(b"0" * 2_500_000)
        monkeypatch.setattr(file_utils, "CACHE_DIRECTORY", str(tmp_path))
        monkeypatch.setenv("HF_HOME", str(tmp_path / "none"))
        assert elmo("doctor") == 0
        lines = capsys.readouterr().out.splitlines()
        titles = [line for line in lines if not line.startswith("  ")]
        assert titles == ["versions", "processor", "GPU", "spaCy models", "caches", "extras"]
        facts = dict(line.strip().split(": ", 1) for line in lines if line not in titles)
        assert facts["torch"] == metadata.version("torch")
        assert Path(facts["configs, fixtures"].split(", ")[0], "ner_elmo.jsonnet").expanduser().exists()
        assert facts["files of URLs"].endswith(", 1 files, 2.5 MB")
        assert facts["Hugging Face"].endswith(", 0 files, 0.0 MB")

    def test_what_is_required_and_not_there(self, monkeypatch):
        requires = [
            "pytest>=1",
            "torch<1",
            'nothing-of-that-name ; python_version < "3"',
            'no-such-package>=2 ; extra == "bad"',
            'pytest>=1 ; extra == "good"',
            'no-such-models ; extra == "models"',
        ]
        monkeypatch.setattr(metadata, "requires", lambda name: requires)
        facts = dict(doctor.versions())
        assert facts["not as required"] == f"torch is {metadata.version('torch')}, not <1"
        extras = {"Provides-Extra": ["bad", "good", "models"]}
        monkeypatch.setattr(metadata, "metadata", lambda name: type("", (), {"get_all": extras.get}))
        expected = {"bad": "no-such-package is not installed", "good": "can be used"}
        monkeypatch.setattr(doctor, "find_spec", lambda name: None)
        for archives, said in (
            ({"ner": "of a checkout"}, "can be used"),
            ({}, "no-such-models is not installed"),
        ):
            monkeypatch.setattr(doctor, "trained_archives", lambda archives=archives: archives)
            assert dict(doctor.extras()) == expected | {"models": said}


OPTIONS, WEIGHTS = "fixtures/elmo/options.json", "fixtures/elmo/weights.safetensors"
COMMANDS = [
    "evaluate NER fixtures/ner/test.conll",
    "predict NER fixtures/ner/predict.jsonl --output-file out --silent",
    "elmo predict NER fixtures/ner/predict.jsonl out",
    pytest.param(
        f"elmo embed fixtures/elmo/sentences.txt out.hdf5 --options-file {OPTIONS} --weight-file {WEIGHTS}",
        marks=needs_h5py,
    ),
    "elmo inspect fixtures/ner/dev.conll --task ner",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_names_of_files_that_come_with_the_project(command, ner_archive, tmp_path, monkeypatch):
    """From any folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(allennlp.commands, "import_plugins", lambda: None)
    monkeypatch.setattr(sys, "argv", ["allennlp", *command.replace("NER", ner_archive).split()])
    with command_process():
        allennlp.commands.main(prog="allennlp")
