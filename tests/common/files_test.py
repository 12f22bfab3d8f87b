"""Lines of text are tested in `tests/data/input_files_test.py`, too, and JSON in `tests/robustness`."""

import json

import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import atomic_file, bundled, check_sources_stay, json_value, text_lines
from elmo_tasks.data.input_files import InputError


@pytest.mark.parametrize("name", ["fixtures/elmo/options.json", "pretrained/english", "training_configs"])
def test_bundled_files_exist(name):
    assert bundled(name).exists()
    assert bundled(name).as_posix().endswith(name)


def test_lines_and_their_numbers(tmp_path):
    file = tmp_path / "text"
    file.write_bytes("\ufeffa\r\n\u2028b\n\nc".encode())
    assert list(text_lines(file)) == [(1, "a"), (2, "\u2028b"), (3, ""), (4, "c")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_carriage_returns_end_lines_where_nothing_else_does(tmp_path, encoding):
    for content, lines in (("a\rb\r\rc\r", ["a", "b", "", "c"]), ("a\rb\nc\rd", ["a\rb", "c\rd"])):
        (tmp_path / "a").write_bytes(content.encode(encoding))
        assert [line for _, line in text_lines(tmp_path / "a", encoding=encoding)] == lines


def test_an_error_names_file_and_line(tmp_path):
    file = tmp_path / "text"
    file.write_bytes(b"fine\nc\xe9t\n")
    with pytest.raises(ElmoError) as caught:
        list(text_lines(file))
    assert str(caught.value) == f"{file}, line 2: the byte 0xe9 at offset 6 is not UTF-8"
    assert not isinstance(caught.value, InputError)


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


def test_sources_are_not_overwritten(tmp_path):
    source, link, other = (tmp_path / name for name in ("source", "link", "other"))
    source.touch()
    link.symlink_to(source)
    sources = ["https://example.com/a", tmp_path / "nothing", source]
    with pytest.raises(LookupError, match="link is the input"):
        check_sources_stay([other, link], sources, error=LookupError)
    check_sources_stay([other], [other, source], error=LookupError)
    other.touch()
    check_sources_stay([other], [link, source], error=LookupError)


# JSON


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (r'"\ud83d"', "surrogate pair"),
        ('"\ud83d"', "surrogate pair"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1" * 5000, "4300 digits"),
        ("[" * 100_000 + "]" * 100_000, "recursion|overflow"),
    ],
    ids=lambda text: text[:20],
)
def test_json_that_pythons_reader_takes_or_fails_on(text, problem):
    with pytest.raises(json.JSONDecodeError, match=problem):
        json_value('{"a": "NaN ]", "b":\n ' + text + "}")


def test_surrogate_pairs_are_read():
    assert json_value(r'"\ud83d\ude00"') == "\U0001f600"
