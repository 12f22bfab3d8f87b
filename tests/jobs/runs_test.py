"""The plan of a run, its notes, and what `--resume` and `--force` do."""

from pathlib import Path
from unittest.mock import patch

import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.jobs import runs
from elmo_tasks.jobs.locations import Folder
from elmo_tasks.jobs.runs import (
    MANIFEST,
    PLAN,
    Reading,
    Run,
    Shard,
    open_run,
    prepare_folder,
)
from elmo_tasks.jobs.sinks import JsonLinesSink

SETTINGS = {"--layers": "all", "the biLM": "x"}


def opened(folder: Path, *, size: int = 4, settings: dict = SETTINGS, **ways: bool) -> Run:
    out = Folder(str(folder / "out"))
    assert prepare_folder(out, **{"resume": False, "force": False} | ways)
    run = open_run(out, ["text"], settings, reading=Reading(str(folder)), shard_bytes=size)
    run.write_plan()
    return run


def remaining(run: Run) -> list[Shard]:
    return [piece.shard for piece in run.remaining()]


@pytest.fixture
def stopped(tmp_path) -> Path:
    """The folder of a text, and of a run in `out` that has done two of its four shards."""
    (tmp_path / "text").write_text("one\ntwo\nthree\nfour\n")
    run = opened(tmp_path)
    assert [shard.line for shard in remaining(run)] == [1, 2, 3, 4]
    for number in (0, 2):
        JsonLinesSink(run.folder, "").done(run.shards[number], {"tokens": 5}, rejects=[{}], state=[1.5])
    return tmp_path


def test_a_run_is_resumed_where_shards_have_no_note(stopped):
    (stopped / "out/_part-000001.parquet.machine.7").write_bytes(b"half")
    # A shard has the size of the plan.
    run = opened(stopped, resume=True, size=100)
    assert [shard.number for shard in remaining(run)] == [1, 3]
    assert run.position == len(b"one\nthree\n")
    assert not (stopped / "out/_part-000001.parquet.machine.7").exists()
    run.add({"number": 1, "tokens": 2})
    assert run.total("tokens") == 12
    assert len(remaining(opened(stopped, force=True))) == 4
    assert [path.name for path in (stopped / "out").iterdir()] == [PLAN]


def test_what_cannot_be_resumed(stopped, monkeypatch):
    def message(**changes) -> str:
        with pytest.raises(ElmoError, match=r"out cannot be resumed.*--force") as caught:
            opened(stopped, resume=True, **changes)
        return str(caught.value).removeprefix(f"{stopped / 'out'} cannot be resumed, ").partition(";")[0]

    assert message(settings={"--layers": "top"}) == "this differs: --layers (was all, is top)"
    with monkeypatch.context() as newer:
        newer.setattr(runs, "VERSION", runs.VERSION + 1)
        assert "version" in message()
    for content in ("", "5", "[]"):
        (stopped / "out" / PLAN).write_text(content)
        assert message()


def test_shards_whose_input_has_changed_are_done_again(stopped):
    (stopped / "text").write_text("one\nTWO\nThree\n")
    assert [shard.number for shard in remaining(opened(stopped, resume=True))] == [1, 2]


RULES = [
    # files in the folder, is there an output beside it; without an option, with --resume, with --force
    ([], False, True, True, True),
    ([], True, "exists; .*--force", False, True),
    ([PLAN], False, "unfinished run; .*--resume.*--force", True, True),
    ([PLAN], True, "unfinished run; .*--resume.*--force", True, True),
    # The folder is the output
    ([], None, True, True, True),
    ([PLAN, "part-000000.parquet"], None, "unfinished run; .*--resume.*--force", True, True),
    (["part-000000.parquet", "__plan.json.machine.7"], None, *2 * ["unfinished run; use --force"], True),
    ([PLAN, MANIFEST, "part-000000.parquet"], None, "exists; .*--force", False, True),
    ([MANIFEST, "part-000000.parquet"], None, "exists; .*--force", False, True),
    (["mine"], None, *3 * ["out holds mine, which this command did not write"]),
]


@pytest.mark.parametrize(("files", "there", "plain", "resume", "force"), RULES)
def test_prepare_folder(tmp_path, files, there, plain, resume, force):
    output = None if there is None else str(tmp_path / "result")
    if there:
        (tmp_path / "result").touch()
    folder = tmp_path / "out"
    for way, outcome in (("", plain), ("resume", resume), ("force", force)):
        folder.mkdir(exist_ok=True)
        for name in files:
            (folder / name).touch()
        ways = {"resume": way == "resume", "force": way == "force"}
        if isinstance(outcome, str):
            with pytest.raises(ElmoError, match=outcome):
                prepare_folder(Folder(str(folder)), output, **ways)
            continue
        assert prepare_folder(Folder(str(folder)), output, **ways) == outcome
        if way == "force":
            assert not list(folder.iterdir())


def test_force_that_is_killed_leaves_no_plan(stopped):
    """A plan and notes without their parts would be taken for shards that are done."""
    (stopped / "out" / MANIFEST).touch()
    delete = Folder.remove

    def killed(folder: Folder, names: list[str]) -> None:
        delete(folder, names[:2])
        raise KeyboardInterrupt

    with patch.object(Folder, "remove", killed), pytest.raises(KeyboardInterrupt):
        opened(stopped, force=True)
    with pytest.raises(ElmoError, match="--force"):
        opened(stopped, resume=True)
