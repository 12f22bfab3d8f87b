"""`allennlp elmo`: the group, and how it ends."""

import re

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived

from elmo_tasks.commands import VERBS
from elmo_tasks.commands.embed import Embed


def test_help_lists_the_verbs(elmo, capsys):
    assert elmo("--help") == 0
    shown = capsys.readouterr().out
    for verb in VERBS:
        assert re.search(rf"(?m)^ +{verb.name}\s+{re.escape(verb.help)}$", shown)


@pytest.mark.parametrize("verb", ["embed", "calibrate"])
def test_help_of_a_verb_that_runs_a_bilm_shows_defaults(elmo, capsys, verb):
    assert elmo(verb, "--help") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "(default = cpu)" in shown
    assert "(default: the biLM that comes with the project)" in shown
    assert "(default = float32)" in shown


@pytest.mark.parametrize("arguments", [(), ("encode",), ("embed",), ("embed", "in", "out", "--layer", "3")])
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
        (SigTermReceived(), 143, "terminated"),
    ],
)
@pytest.mark.parametrize("note", [False, True])
def test_what_stops_a_verb_is_one_line(elmo, capsys, monkeypatch, error, code, shown, note):
    def stop(self, arguments):
        if note:
            error.add_note("do so")
        raise error

    monkeypatch.setattr(Embed, "run", stop)
    assert elmo("embed", "in", "out") == code
    assert capsys.readouterr().err == (f"{shown}; do so\n" if note else f"{shown}\n")


def test_other_errors_are_not_hidden(elmo, monkeypatch):
    def stop(self, arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(Embed, "run", stop)
    with pytest.raises(ZeroDivisionError):
        elmo("embed", "in", "out")


def test_the_installed_script_knows_the_group(script, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"fine\nnot \xff\n")
    done = script("elmo", "embed", tmp_path / "in.txt", tmp_path / "out.hdf5")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line == (f"error: {tmp_path / 'in.txt'}, line 2: found the byte 0xff at offset 9, expected UTF-8")
