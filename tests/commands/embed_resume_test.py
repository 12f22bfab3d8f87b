"""`allennlp elmo embed` that is stopped, and goes on."""

import errno
import fcntl
import os
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from allennlp.common.util import SigTermReceived

from elmo_tasks.commands import runs
from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.elmo.inference.packed_weights import onednn_has_bfloat16
from elmo_tasks.elmo.model.weight_file import write_initial_state
from elmo_tasks.embedding import vector_file
from elmo_tasks.jobs.places import Folder
from elmo_tasks.jobs.runs import FORMER, PLAN
from tests.commands.embed_runs import fail_with, partial, stop_at_batch, vectors
from tests.commands.texts import DIM, LINES, TEXT, shipped_bilm, tiny
from tests.forked import Command


@pytest.mark.parametrize(
    "options", [[], ["--stateful"], ["--layers", "top"], ["--forget-sentences"]], ids=str
)
def test_a_resumed_run_gives_the_same_file(
    elmo, source, tmp_path, capsys, monkeypatch, small_shards, options
):
    """Stopped at any batch."""
    options = [*options, "--batch-tokens", 4, *tiny(tmp_path)]
    assert elmo("embed", source, tmp_path / "expected", *options) == 0
    kept = []
    for number in range(100):
        output = tmp_path / f"out{number}"
        capsys.readouterr()
        with monkeypatch.context() as patch:
            stop_at_batch(patch, number, KeyboardInterrupt())
            code = elmo("embed", source, output, *options)
        if code == 0:
            break
        assert code == 130
        shown = capsys.readouterr().err
        assert shown.endswith(
            " of 10 lines are done, and the same command with --resume goes on from there\n"
        )
        kept.append(shown.split("interrupted; ")[1].split()[0])
        assert not output.exists()
        assert elmo("embed", source, output, *options, "--resume") == 0
        assert output.read_bytes() == (tmp_path / "expected").read_bytes()
        assert not partial(output).exists()
    assert number >= 7
    assert len(set(kept)) >= 3
    assert kept == sorted(kept)


def test_resuming_does_not_encode_again(elmo, source, output, monkeypatch, capsys, small_shards):
    with monkeypatch.context() as patch:
        stop_at_batch(patch, 7, KeyboardInterrupt())
        elmo("embed", source, output, "--stateful")
    done = int(capsys.readouterr().err.split("interrupted; ")[1].split()[0])
    assert done > 6
    words = []
    encode = FrozenBiLm._in_parts
    monkeypatch.setattr(
        FrozenBiLm,
        "_in_parts",
        lambda self, ids, run: (words.append(ids.shape[1]), encode(self, ids, run))[1],
    )
    assert elmo("embed", source, output, "--stateful", "--resume") == 0
    assert words == [len(line.split()) for line in LINES[done:] if line.split()]


def test_sigterm(elmo, source, output, capsys, monkeypatch):
    stop_at_batch(monkeypatch, 0, SigTermReceived())
    assert elmo("embed", source, output) == 143
    assert "terminated; 0 of 10 lines are done" in capsys.readouterr().err
    assert partial(output).exists()


def test_the_disk_fails_on_the_way(elmo, source, output, tmp_path, capsys, monkeypatch, small_shards):
    """The disk's error comes from its thread; what was not written does not count as done."""
    elmo("embed", source, tmp_path / "expected")
    with monkeypatch.context() as patch:
        patch.setattr(vector_file.VectorFile, "write", fail_with(errno.ENOSPC))
        assert elmo("embed", source, output) == 1
    shown = capsys.readouterr().err
    assert f"error: {output}: No space left on device; 0 of 10 lines are done, and the same" in shown
    assert elmo("embed", source, output, "--resume") == 0
    assert output.read_bytes() == (tmp_path / "expected").read_bytes()


@pytest.fixture
def stopped(elmo, source, output, monkeypatch, small_shards, capsys) -> Path:
    """The folder of a run that was stopped in its second shard."""
    with monkeypatch.context() as patch:
        stop_at_batch(patch, 1, KeyboardInterrupt())
        assert elmo("embed", source, output) == 130
    capsys.readouterr()
    return partial(output)


def test_resume_with_another_text(elmo, source, output, stopped, capsys):
    source.write_text(TEXT + "more\n", encoding="utf-8")
    assert elmo("embed", source, output, "--resume") == 1
    assert capsys.readouterr().err == (
        f"error: {stopped} cannot be resumed, this differs: the text; --force starts anew\n"
    )
    source.write_text(TEXT, encoding="utf-8")
    assert elmo("embed", source, output, "--resume") == 0


def test_resume_with_other_options(elmo, source, output, stopped, capsys, tmp_path):
    options = ("--layers", "top", "--batch-tokens", 5, "--forget-sentences")
    assert elmo("embed", source, output, "--resume", *options) == 1
    assert (
        "this differs: --layers (was all, is top), --batch-tokens (was 2048, is 5), "
        "--forget-sentences (was False, is True); --force"
    ) in capsys.readouterr().err
    bilm = shipped_bilm()
    ones = [torch.ones_like(part[:, :, 0]) for part in bilm.initial_state(1)]
    write_initial_state(tmp_path / "state", *ones, attributes={})
    assert elmo("embed", source, output, "--resume", "--initial-state", tmp_path / "state") == 1
    assert "this differs: the initial state; --force" in capsys.readouterr().err


@pytest.mark.skipif(not onednn_has_bfloat16(), reason="no bfloat16 here")
def test_resume_with_another_precision(elmo, source, output, stopped, capsys):
    assert elmo("embed", source, output, "--resume", "--precision", "bfloat16") == 1
    assert "the biLM, --precision (was float32, is bfloat16); --force" in capsys.readouterr().err


def test_a_stopped_run_is_not_lost_by_accident(elmo, source, output, stopped, capsys):
    assert elmo("embed", source, output) == 1
    assert "holds a run that was stopped; --resume goes on with it, --force starts" in capsys.readouterr().err
    assert elmo("embed", source, output, "--force", "--layers", "top") == 0
    assert vectors(output)[0].shape == (7, DIM)


def test_a_run_of_a_former_version(elmo, source, output, capsys):
    """It is not removed without a word."""
    partial(output).mkdir()
    (partial(output) / FORMER).touch()
    for option in ([], ["--resume"]):
        assert elmo("embed", source, output, *option) == 1
        assert "holds a run of a former version, which cannot be resumed; --force" in capsys.readouterr().err
    assert elmo("embed", source, output, "--force") == 0
    assert not partial(output).exists()


def test_resume_with_nothing_to_resume(elmo, source, output, capsys):
    assert elmo("embed", source, output, "--resume") == 0
    before = output.read_bytes()
    capsys.readouterr()
    assert elmo("embed", source, output, "--resume") == 0
    assert capsys.readouterr().out == f"{output} is there, and no run to go on with; --force makes it anew\n"
    assert output.read_bytes() == before
    assert not partial(output).exists()


def test_resume_of_a_run_that_was_to_overwrite(elmo, source, output, monkeypatch):
    """The old file is there until the new one is whole."""
    output.write_text("old")
    with monkeypatch.context() as patch:
        stop_at_batch(patch, 0, KeyboardInterrupt())
        assert elmo("embed", source, output, "--force") == 130
    assert output.read_text() == "old"
    assert elmo("embed", source, output, "--resume") == 0
    assert len(vectors(output)) == len(LINES)


def test_a_run_that_was_to_overwrite_and_was_stopped_while_it_read(elmo, source, output, monkeypatch):
    output.write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(runs, "copy_corpus", Mock(side_effect=KeyboardInterrupt))
        assert elmo("embed", source, output, "--force") == 130
    assert output.read_text() == "old"
    assert elmo("embed", source, output) == 1
    assert elmo("embed", source, output, "--resume") == 0
    assert len(vectors(output)) == len(LINES)
    assert not partial(output).exists()
    assert elmo("embed", source, output, "--resume") == 0


def test_a_run_that_was_to_overwrite_and_could_not_read(elmo, source, output, tmp_path):
    """It is not resumed by a run of another text."""
    output.write_text("old")
    (tmp_path / "bad").write_bytes(b"\xff")
    assert elmo("embed", tmp_path / "bad", output, "--force") == 1
    assert not partial(output).exists()
    assert elmo("embed", source, output) == 1
    assert elmo("embed", source, output, "--resume") == 0
    assert output.read_text() == "old"


@pytest.mark.parametrize("at", ["replace", "remove"])
def test_stopped_at_the_very_end(elmo, source, output, tmp_path, monkeypatch, at):
    elmo("embed", source, tmp_path / "expected")
    replace, remove = os.replace, Folder.remove

    def stop_at_replace(path, target):
        if Path(path).name == vector_file.VECTORS:
            raise KeyboardInterrupt
        replace(path, target)

    def stop_at_remove(folder, names):
        if names == [PLAN]:
            raise KeyboardInterrupt
        remove(folder, names)

    with monkeypatch.context() as patch:
        if at == "replace":
            patch.setattr(os, "replace", stop_at_replace)
        else:
            patch.setattr(Folder, "remove", stop_at_remove)
        assert elmo("embed", source, output) == 130
    assert elmo("embed", source, output, "--resume") == 0
    assert output.read_bytes() == (tmp_path / "expected").read_bytes()
    assert not partial(output).exists()


def test_two_runs_at_once(elmo, source, output, capsys):
    partial(output).mkdir()
    other = os.open(partial(output), os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    try:
        assert elmo("embed", source, output) == 1
    finally:
        os.close(other)
    assert f"{partial(output)} is in use by another process" in capsys.readouterr().err
    assert partial(output).exists()


def test_killed_and_resumed(elmo, source, output, tmp_path, monkeypatch):
    """SIGKILL, of a process of its own, after its first shard."""
    monkeypatch.setattr(runs, "SHARD_BYTES", 100)  # as that process has it
    source.write_text("".join(f"{i} is a number .\n" for i in range(1000)))
    arguments = ["embed", source, output, "--layers", "top"]
    process = Command(["elmo", *arguments], tmp_path / "log")
    deadline = time.monotonic() + 120
    while not list(partial(output).glob("_part-*.json")) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.kill_after(0)
    assert list(partial(output).glob("_part-*.json"))
    assert not output.exists()
    assert elmo(*arguments, "--resume") == 0
    assert elmo("embed", source, tmp_path / "expected", "--layers", "top") == 0
    assert output.read_bytes() == (tmp_path / "expected").read_bytes()
