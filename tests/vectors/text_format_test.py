import gzip

import numpy as np
import pytest

from elmo_tasks.data.input_files import InputError
from elmo_tasks.vectors import WordTable, write_table
from elmo_tasks.vectors.text_format import dimensions, read_table
from tests.input_errors import input_error


@pytest.mark.parametrize("header", ["", "4 3\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_layouts(tmp_path, header, packed, caplog):
    text = f"{header}the 1 -2 3e-1\nNew York 1 1 1\n1,000 4 5 6 \n7 8 9 0\n\n"
    (tmp_path / "vectors").write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    words, vectors = read_table(str(tmp_path / "vectors"))
    assert words == ["the", "1,000", "7"]
    assert vectors == pytest.approx(np.array([[1, -2, 0.3], [4, 5, 6], [8, 9, 0]]))
    assert "1 words with blanks are left out" in caplog.text


def test_the_first_line_says_where_a_word_with_blanks_ends(tmp_path, caplog):
    (tmp_path / "vectors").write_text("2 3\nNew York 1 2 3\ncat 1 2 4\n")
    assert read_table(str(tmp_path / "vectors")).words == ["cat"]
    assert "1 words with blanks are left out" in caplog.text


def test_a_word_with_blanks_that_ends_in_a_number(tmp_path, caplog):
    (tmp_path / "vectors").write_text("2 3\nWorld War 2 1 2 3\ncat 1 2 4\n")
    assert read_table(str(tmp_path / "vectors")).words == ["cat"]
    assert "1 words with blanks are left out" in caplog.text


def test_files_of_two_sizes(tmp_path):
    (tmp_path / "a").write_text("2 4\na 1 1 1 1\nb 2 2 2 2\n")
    (tmp_path / "b").write_text("2 2\nc 3 3\nd 4 4\n")
    with pytest.raises(InputError, match="b, line 1: found 2 numbers, expected 4, as before"):
        read_table(str(tmp_path))


def test_what_elmo_vectors_writes(tmp_path):
    vectors = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
    write_table(tmp_path / "vectors.gz", WordTable(["zoë", "한국어"], vectors))
    found = read_table(str(tmp_path / "vectors.gz"))
    assert found.words == ["zoë", "한국어"]
    assert found.vectors == pytest.approx(vectors, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "vectors: found no vector, expected lines of a word and its numbers"),
        ("2 3\n", "vectors: found 0 lines behind the first one, expected 2, as it says"),
        ("3 2\nthe 1 2\ncat 1 2\n", "vectors: found 2 lines behind the first one, expected 3, as it says"),
        ("the\n", "line 1: found 0 numbers, expected 1, with a word"),
        ("the 1 2\ncat 1\n", "line 2: found 1 numbers, expected 2, with a word"),
        ("the 1 2\ncat 1 2 3\n", "line 2: found 3 numbers, expected 2, with a word"),
        ("the 1 2\na\n", "line 2: found 0 numbers"),
        ("the 1 2\ncat 1 x\n", "line 2: found could not convert string to float: 'x', expected 2 numbers"),
        ("1 2\nthe 1 2 3\n", "line 2: found 3 numbers, expected 2, with a word"),
        ("the 1 inf\n", "line 1: found no finite number, expected 2 numbers"),
    ],
)
def test_errors(tmp_path, text, message):
    assert message in input_error(read_table, tmp_path / "vectors", text)


@pytest.mark.parametrize(("text", "dim"), [("2 3\nthe 1 2 3\n", 3), ("the 1 2 3\n", 3), ("7 1.5\n", 1)])
def test_dimensions_with_and_without_a_header(tmp_path, text, dim):
    (tmp_path / "vectors").write_text(text)
    assert dimensions(str(tmp_path / "vectors")) == dim


def test_dimensions_of_nothing(tmp_path):
    (tmp_path / "vectors").touch()
    with pytest.raises(InputError, match="found no vector, expected a word and its numbers a line"):
        dimensions(str(tmp_path / "vectors"))
