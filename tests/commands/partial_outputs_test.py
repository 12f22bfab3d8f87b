"""OUT.partial, in which a verb works until OUT is complete."""

import os

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.partial_outputs import partial_file, partial_folder
from elmo_tasks.jobs.locations import MARK, WORK


def test_a_failure_leaves_what_was_there(tmp_path):
    output = tmp_path / "out.txt"
    output.write_text("old")

    def failing() -> None:
        with partial_file(output, force=True) as path:
            path.write_text("new")
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert output.read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]


def test_a_folder_is_for_one_process_alone(tmp_path):
    with (
        partial_folder(tmp_path / "out"),
        pytest.raises(ConfigurationError, match=r"out\.partial"),
        partial_folder(tmp_path / "out"),
    ):
        pass


def test_what_a_killed_process_left_is_removed(tmp_path):
    left = tmp_path / "out.partial"
    (left / WORK / "vocabulary").mkdir(parents=True)
    (left / WORK / "vocab.txt").write_text("of another model")
    (left / MARK).touch()
    with partial_folder(tmp_path / "out") as folder:
        assert not list(folder.iterdir())
        (folder / "vectors").touch()
    assert not list(tmp_path.iterdir())


def test_a_folder_without_a_mark_is_the_users(tmp_path):
    mine = tmp_path / "out.partial" / WORK / "thesis"
    mine.parent.mkdir(parents=True)
    mine.touch()
    with pytest.raises(ConfigurationError, match=f"found {WORK}"), partial_folder(tmp_path / "out"):
        pass
    assert mine.exists()


def test_links_are_replaced_and_files_of_a_user_stay(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/text").write_text("mine")
    partial = tmp_path / "out.partial"
    partial.mkdir()
    (partial / MARK).touch()
    (partial / WORK).symlink_to("../thesis")
    with partial_folder(tmp_path / "out") as folder:
        (folder / "text").write_text("new")
        (partial / "notes").mkdir()
    assert (tmp_path / "thesis/text").read_text() == "mine"
    assert sorted(path.name for path in partial.iterdir()) == [MARK, "notes"]
    with pytest.raises(ConfigurationError, match="notes"), partial_folder(tmp_path / "out"):
        pass
    assert (partial / "notes").exists()
    (partial / MARK).unlink()
    os.mkfifo(partial / MARK)
    with pytest.raises(ConfigurationError, match=MARK), partial_folder(tmp_path / "out"):
        pass
