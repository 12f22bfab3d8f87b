"""Files of all kinds. Lines are tested in `tests/data/input_files_test.py`, JSON in `tests/robustness`."""

import pytest

from elmo_tasks.common.files import atomic_file, text_lines


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_carriage_returns_end_lines_where_nothing_else_does(tmp_path, encoding):
    for content, lines in (("a\rb\r\rc\r", ["a", "b", "", "c"]), ("a\rb\nc\rd", ["a\rb", "c\rd"])):
        (tmp_path / "a").write_bytes(content.encode(encoding))
        assert [line for _, line in text_lines(tmp_path / "a", encoding=encoding)] == lines


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_file(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("partial", [None, "checkpoint.partial"])
def test_an_exception_changes_no_file(tmp_path, partial):
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
