"""Lines of text are tested in `tests/data/input_files_test.py`, too, and JSON in `tests/robustness`."""

import importlib.util
import json
import shutil

import pytest

from elmo_tasks.common import files, strict_json
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import atomic_file, bundled, check_sources_stay, read_lines
from elmo_tasks.data.input_files import InputError


@pytest.mark.parametrize("name", ["fixtures/elmo/options.json", "pretrained/english", "training_configs"])
def test_bundled_files_exist(name):
    assert bundled(name).exists()
    assert bundled(name).as_posix().endswith(name)


def test_bundled_files_are_beside_the_package_or_inside_it(tmp_path):
    """As in a checkout, and as in a wheel."""
    module = tmp_path / "package/common/files.py"
    module.parent.mkdir(parents=True)
    shutil.copy(files.__file__, module)
    spec = importlib.util.spec_from_file_location("elsewhere", module)
    elsewhere = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(elsewhere)
    (tmp_path / "fixtures").mkdir()
    assert elsewhere.bundled("fixtures/a") == tmp_path / "fixtures/a"
    (tmp_path / "package/fixtures").mkdir()
    (tmp_path / "package/fixtures/a").touch()
    assert elsewhere.bundled("fixtures/a") == tmp_path / "package/fixtures/a"
    assert elsewhere.bundled("fixtures/b") == tmp_path / "fixtures/b"


def test_lines_and_their_numbers(tmp_path):
    file = tmp_path / "text"
    file.write_bytes("\ufeffa\r\n\u2028b\n\nc".encode())
    assert list(read_lines(file)) == [(1, "a"), (2, "\u2028b"), (3, ""), (4, "c")]


def test_an_error_names_file_and_line(tmp_path):
    file = tmp_path / "text"
    file.write_bytes(b"fine\nc\xe9t\n")
    with pytest.raises(ElmoError) as caught:
        list(read_lines(file))
    assert str(caught.value) == f"{file}, line 2: found the byte 0xe9 at offset 6, expected UTF-8"
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

UNREADABLE = {
    "half of a surrogate pair": (r'"\ud83d"', "Half of a surrogate pair"),
    "5,000 digits": ("1" * 5000, "more than 4,300 digits"),
    "100,000 levels": ("[" * 100_000 + "]" * 100_000, "More than 100 levels"),
    "101 levels": ('{"a":' * 101 + "1" + "}" * 101, "More than 100 levels"),
    "NaN": ("NaN", "NaN is no number"),
    "-Infinity": ("-Infinity", "-Infinity is no number"),
    "1e999": ("[1e308, {}, 1e999]", "beyond 1.8e308"),
    "an infinity of 5,000 digits": ("-" + "1" * 5000 + ".5", "beyond 1.8e308"),
}


@pytest.mark.parametrize(("text", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_json_that_pythons_reader_takes(text, message):
    with pytest.raises(json.JSONDecodeError, match=message) as caught:
        strict_json.loads('{"a": "NaN ]", "b":\n ' + text + "}")
    assert caught.value.lineno == 2


@pytest.mark.parametrize("number", ["1e999", "-1.5E+400", "1" * 400 + ".0", "1" * 5000, "-" + "1" * 5000])
def test_the_position_of_a_number_that_is_too_large(number):
    before = f'[{"1" * 400}, "{number}", 1e308, -2.5, '
    with pytest.raises(json.JSONDecodeError) as caught:
        strict_json.loads(f"{before}{number}]")
    assert caught.value.pos == len(before)


def test_surrogate_pairs_and_100_levels_are_read():
    assert strict_json.loads(r'"\ud83d\ude00"') == "\U0001f600"
    assert strict_json.loads("[" * 100 + "]" * 100)
    with pytest.raises(json.JSONDecodeError, match="Half of a surrogate pair"):
        strict_json.loads('"\ud83d"')
