import pytest

from elmo_tasks.common.files import atomic_file, check_sources_stay


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


def test_what_would_be_overwritten(tmp_path):
    source, link, other = (tmp_path / name for name in ("source", "link", "other"))
    source.touch()
    link.symlink_to(source)
    with pytest.raises(LookupError, match="link is the input, expected another file for the output"):
        check_sources_stay(
            [other, link], ["https://example.com/a", tmp_path / "nothing", source], error=LookupError
        )
    check_sources_stay([other], [other, source], error=LookupError)
    other.touch()
    check_sources_stay([other], [link, source], error=LookupError)
