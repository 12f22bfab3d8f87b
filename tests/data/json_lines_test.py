import gzip

import pytest

from elmo_tasks.data.input_files import InputError
from elmo_tasks.data.json_lines import parse_json, read_json, read_json_lines, shorten, shorten_json


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_values_with_their_lines(tmp_path, pack):
    (tmp_path / "a").write_bytes(pack(b'{"a": 1}\n\n \t\n[2]\n'))
    assert list(read_json_lines(tmp_path / "a")) == [(1, {"a": 1}), (4, [2])]
    assert list(read_json_lines(tmp_path / "a", [(7, '"b"')])) == [(7, "b")]
    (tmp_path / "b").write_bytes(pack(b'{"a":\n 1}\n'))
    assert read_json(tmp_path / "b") == {"a": 1}


def test_errors_name_file_line_and_column(tmp_path):
    (tmp_path / "a").write_text('{}\n{"a": }\n')
    with pytest.raises(
        InputError, match=r"a, line 2: found no JSON \(Expecting value, column 7\), expected an object"
    ):
        list(read_json_lines(tmp_path / "a", expected="an object"))
    (tmp_path / "b").write_text('{"a":\n\n x}\n')
    with pytest.raises(InputError, match=r"b, line 3: found no JSON .* column 2\), expected a JSON object"):
        read_json(tmp_path / "b")
    with pytest.raises(InputError, match="c, line 11: found no JSON"):
        parse_json("[\n", "c", 10)


def test_long_texts_are_shortened():
    assert shorten("abc", 3) == "abc"
    assert shorten("abcd", 3) == "abc..."
    assert shorten_json(["é"], 10) == '["é"]'
