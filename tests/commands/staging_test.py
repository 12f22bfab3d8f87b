from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.staging import publish, staged_file, staging_folder


def test_a_file_appears_in_the_end(tmp_path):
    output = tmp_path / "out.txt"
    with staged_file(output, force=False) as path:
        path.write_text("new")
        assert not output.exists()
    assert output.read_text() == "new"
    assert list(tmp_path.iterdir()) == [output]


def test_a_failure_leaves_what_was_there(tmp_path):
    output = tmp_path / "out.txt"
    output.write_text("old")

    def failing() -> None:
        with staged_file(output, force=True) as path:
            path.write_text("new")
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert output.read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]


def test_nothing_is_overwritten_without_force(tmp_path):
    output = tmp_path / "out.txt"
    output.touch()
    with (
        pytest.raises(ConfigurationError, match="exists; --force overwrites it"),
        staged_file(output, force=False),
    ):
        pass
    output.unlink()
    output.mkdir()
    with pytest.raises(ConfigurationError, match="is not a file"), staged_file(output, force=True):
        pass


def test_a_folder_is_for_one_process_alone(tmp_path):
    with (
        staging_folder(tmp_path / "out"),
        pytest.raises(ConfigurationError, match=r"out\.partial is in use by another process"),
        staging_folder(tmp_path / "out"),
    ):
        pass


def test_what_a_killed_process_left_is_removed(tmp_path):
    left = tmp_path / "out.partial"
    (left / "vocabulary").mkdir(parents=True)
    (left / "vocab.txt").write_text("of another model")
    with staging_folder(tmp_path / "out", keep=["checkpoint"]) as folder:
        assert not list(folder.iterdir())
        (folder / "checkpoint").touch()
    (left / "vectors").touch()
    with staging_folder(tmp_path / "out", keep=["checkpoint"]) as folder:
        assert {path.name for path in folder.iterdir()} == {"checkpoint", "vectors"}


def test_folders_above_are_made(tmp_path):
    with staged_file(tmp_path / "a/b/out", force=False) as path:
        path.write_text("new")
    assert (tmp_path / "a/b/out").read_text() == "new"


def test_an_output_without_a_name(tmp_path):
    with (
        pytest.raises(ConfigurationError, match=r"found the output '\.', expected the name"),
        staging_folder(Path()),
    ):
        pass


def test_files_that_are_there_are_published(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    for name in ("b", "a"):
        (source / name).write_text(name)
    assert publish(source, target, ["a", "missing", "b"]) == ["a", "b"]
    assert {path.name: path.read_text() for path in target.iterdir()} == {"a": "a", "b": "b"}


def test_standard_output_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(ConfigurationError, match="found - for the output"),
        staged_file(Path("-"), force=True),
    ):
        pass
    assert not list(tmp_path.iterdir())
