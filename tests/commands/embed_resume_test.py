"""Stops and resumes `allennlp elmo embed`."""

from pathlib import Path

import pytest
import torch

from elmo_tasks.elmo.model.weight_file import write_initial_state
from tests.commands.embed_runs import before_each_batch, partial, stop_at_batch
from tests.commands.texts import LINES, TEXT, default_bilm, tiny
from tests.errors import mentions

pytestmark = pytest.mark.usefixtures("small_default")


@pytest.mark.parametrize(
    "options",
    [[], ["--stateful"], ["--layers", "top", "--dtype", "float16"], ["--forget-sentences"]],
    ids=str,
)
def test_a_resumed_run_gives_the_same_file(
    elmo, source, tmp_path, capsys, monkeypatch, small_shards, options
):
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
        assert " lines are done" in shown
        assert "--resume" in shown
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
    before_each_batch(monkeypatch, lambda ids: words.append(ids.shape[1]))
    assert elmo("embed", source, output, "--stateful", "--resume") == 0
    assert words == [len(line.split()) for line in LINES[done:] if line.split()]


@pytest.fixture
def stopped(elmo, source, output, monkeypatch, small_shards, capsys) -> Path:
    """The folder of a run that was stopped in its second shard."""
    with monkeypatch.context() as patch:
        stop_at_batch(patch, 1, KeyboardInterrupt())
        assert elmo("embed", source, output) == 130
    capsys.readouterr()
    return partial(output)


@pytest.mark.parametrize("mode", ["--resume", "--force"])
@pytest.mark.parametrize("target", ["thesis/text", "thesis"])
def test_links_in_the_folder_are_not_followed(elmo, source, output, stopped, tmp_path, mode, target):
    thesis = tmp_path / "thesis/text"
    thesis.parent.mkdir()
    thesis.write_text("mine")
    names = ["_work", "_result.hdf5", "part-000001.vectors", "notes"]
    if mode == "--force":
        names += ["_plan.json", "_part-000000.json", "part-000000.vectors"]
    for name in names:
        (stopped / name).unlink(missing_ok=True)
        (stopped / name).symlink_to(tmp_path / target)
    assert elmo("embed", source, output, mode) == 1
    for name in names:
        (stopped / name).unlink(missing_ok=True)
    assert elmo("embed", source, output, mode) == 0
    assert not stopped.exists()
    assert list(thesis.parent.iterdir()) == [thesis]
    assert thesis.read_text() == "mine"


def test_resume_with_another_text(elmo, source, output, stopped, capsys):
    source.write_text(TEXT + "more\n", encoding="utf-8")
    assert elmo("embed", source, output, "--resume") == 1
    assert mentions(capsys.readouterr().err, f"error: {stopped} ", "the text", "--force")
    source.write_text(TEXT, encoding="utf-8")
    assert elmo("embed", source, output, "--resume") == 0


def test_resume_with_other_options(elmo, source, output, stopped, capsys, tmp_path):
    options = ("--layers", "top", "--batch-tokens", 5, "--forget-sentences")
    assert elmo("embed", source, output, "--resume", *options) == 1
    differing = "--layers (was all, is top)", "--batch-tokens (was 2048", "--forget-sentences (was"
    assert mentions(capsys.readouterr().err, *differing, "--force")
    bilm = default_bilm()
    ones = [torch.ones_like(part[:, :, 0]) for part in bilm.initial_state(1)]
    write_initial_state(tmp_path / "state", *ones, attributes={})
    assert elmo("embed", source, output, "--resume", "--initial-state", tmp_path / "state") == 1
    assert "the initial state" in capsys.readouterr().err


def test_resume_with_nothing_to_resume(elmo, source, output, capsys):
    assert elmo("embed", source, output, "--resume") == 0
    before = output.read_bytes()
    capsys.readouterr()
    assert elmo("embed", source, output, "--resume") == 0
    assert mentions(capsys.readouterr().out, f"{output} is complete", "--force")
    assert output.read_bytes() == before
    assert not partial(output).exists()
