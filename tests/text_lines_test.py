"""`tests/data/input_files_test.py` has the lines themselves."""

import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.text_lines import read_lines
from elmo_tasks.data.input_files import InputError


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
    assert str(ElmoError.at(file, found="a", expected="b")) == f"{file}: found a, expected b"
