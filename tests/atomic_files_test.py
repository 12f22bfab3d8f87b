import pytest

from elmo_tasks.atomic_files import atomic_file


def test_the_content_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_file(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("partial", [None, "checkpoint.partial"])
def test_an_exception_changes_nothing(tmp_path, partial):
    path = tmp_path / "file"
    path.write_text("old")

    def interrupted() -> None:
        with atomic_file(path, partial=partial) as file:
            file.write(b"ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
