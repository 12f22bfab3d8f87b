import json
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed: make install EXTRAS='ray'")

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.jobs import runs
from elmo_tasks.jobs.pool import Engine
from elmo_tasks.jobs.runs import Run, RunRequest, open_run, write_note
from elmo_tasks.jobs.shards import Reading
from elmo_tasks.jobs.storage import Folder


def opened(folder: Path, *, workers: int = 1, size: int | None = 4, **arguments) -> Run | None:
    defaults = {
        "source": "text",
        "settings": {"--layers": "all", "the biLM": "x"},
        "resume": False,
        "force": False,
    }
    request = RunRequest(engine=Engine(shard_bytes=size), **defaults | arguments)
    return open_run(Folder(str(folder / "out")), request, reading=Reading(str(folder)), workers=workers)


def do(run: Run, numbers: list[int]) -> None:
    """The shards of these numbers."""
    for shard in run.shards:
        if shard.number in numbers:
            with run.folder.writing(f"{shard.name}.parquet") as file:
                file.write(b"...")
            run.done[shard.number] = write_note(run.folder, shard, {"tokens": 5}, [{"line": shard.line}])


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("one\ntwo\nthree\nfour\n")
    run = opened(tmp_path)
    assert [shard.line for shard in run.left()] == [1, 2, 3, 4]
    do(run, [0, 2])
    return tmp_path


def test_a_run_goes_on_where_shards_are_whole(stopped):
    (stopped / "out/_part-000001.parquet.machine.7").write_bytes(b"half")
    # With as many workers as may be, and whatever the size of a shard would be now
    run = opened(stopped, resume=True, workers=9, size=None)
    assert [shard.number for shard in run.left()] == [1, 3]
    do(run, [1, 3])
    run.finish({"about": "it"})
    files = sorted(path.name for path in (stopped / "out").iterdir())
    assert files == [
        "_manifest.json",
        "_plan.json",
        "_rejected.jsonl",
        *(f"part-00000{number}.parquet" for number in range(4)),
    ]
    assert (stopped / "out/_rejected.jsonl").read_text().count("\n") == 4
    manifest = json.loads((stopped / "out/_manifest.json").read_text())
    assert all("rejects" not in part for part in manifest["parts"])
    assert run.total("tokens") == 20
    assert opened(stopped, resume=True) is None
    with pytest.raises(ElmoError, match=r"this differs: --layers \(was all, is top\);"):
        opened(stopped, resume=True, settings={"--layers": "top", "the biLM": "x"})
    with pytest.raises(ElmoError, match="out exists; --force overwrites it"):
        opened(stopped)
    assert len(opened(stopped, force=True).left()) == 4
    assert [path.name for path in (stopped / "out").iterdir()] == ["_plan.json"]


def test_what_cannot_be_resumed(stopped, monkeypatch):
    with pytest.raises(ElmoError, match="holds a run that was stopped; --resume goes on with it"):
        opened(stopped)
    with pytest.raises(ElmoError, match=r"this differs: --layers \(was all, is top\), the biLM;"):
        opened(stopped, resume=True, settings={"--layers": "top", "the biLM": "y"})
    with monkeypatch.context() as newer:
        newer.setattr(runs, "VERSION", 2)
        with pytest.raises(ElmoError, match="this differs: the version of this command"):
            opened(stopped, resume=True)
    with pytest.raises(ElmoError, match=f"the text differs: its name was text, is {stopped / 'text'};"):
        opened(stopped, resume=True, source=str(stopped / "text"))
    (stopped / "text").write_text("one\ntwo\nThree\nfour\n")
    with pytest.raises(ElmoError, match="the text differs: text, behind line 3"):
        opened(stopped, resume=True)
    (stopped / "out/mine").touch()
    with pytest.raises(ElmoError, match="out holds mine, which this command did not write"):
        opened(stopped, force=True)


def test_force_that_is_killed_leaves_no_plan(stopped, monkeypatch):
    """A plan and notes without their parts would be taken for shards that are done."""
    delete = Folder.remove

    def killed(folder, names):
        delete(folder, list(names)[:1])
        raise KeyboardInterrupt

    monkeypatch.setattr(Folder, "remove", killed)
    with pytest.raises(KeyboardInterrupt):
        opened(stopped, force=True)
    monkeypatch.undo()
    monkeypatch.chdir(stopped)
    assert not (stopped / "out/_plan.json").exists()
    with pytest.raises(ElmoError, match="holds a run that was stopped; --force starts anew"):
        opened(stopped, resume=True)
    assert len(opened(stopped, force=True).left()) == 4


def test_what_a_killed_worker_had_begun_to_write_is_ours(stopped):
    for name in ("__plan.json.machine.7", "__part-000001.json.machine.7", "__manifest.json.machine.7"):
        (stopped / "out" / name).touch()
    run = opened(stopped, resume=True)
    do(run, [1, 3])
    run.finish({})
    assert not list((stopped / "out").glob("__*"))
    (stopped / "out/__plan.json.machine.7").touch()
    assert len(opened(stopped, force=True).left()) == 4


def test_progress_ends_with_how_to_go_on(stopped, capsys, monkeypatch):
    monkeypatch.setattr("elmo_tasks.common.progress.in_file", lambda: {"delay": 0, "mininterval": 0})
    run = opened(stopped, resume=True)

    def outcomes():
        yield {"number": 1}
        raise OSError("gone")

    with pytest.raises(OSError, match="gone") as raised:
        list(run.progress(outcomes(), "embed"))
    assert raised.value.__notes__ == [
        "3 of 4 shards are done, and the same command with --resume goes on from there"
    ]
    assert "embed:  74%" in capsys.readouterr().err


def test_what_the_run_writes_is_no_input(tmp_path):
    (tmp_path / "text").write_text("one\ntwo\n")
    run = opened(tmp_path, source=str(tmp_path))
    do(run, [0, 1])
    run.finish({"about": "it"})
    for again in (
        opened(tmp_path, source=str(tmp_path), force=True),
        opened(tmp_path, source=str(tmp_path), resume=True),
    ):
        assert {shard.source for shard in again.shards} == {str(tmp_path / "text")}
    with pytest.raises(ElmoError, match="out is what this command writes, expected another output"):
        opened(tmp_path, source=str(tmp_path / "out"), force=True)
    assert (tmp_path / "out/_plan.json").exists()
