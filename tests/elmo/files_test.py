"""Sources of a biLM: paths and URLs, and their errors. Folders and zips are in `embedder_kinds_test.py`."""

import sys

import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.files import (
    DEFAULT_OPTIONS,
    DEFAULT_WEIGHTS,
    read_frozen_bilm,
    read_options,
    read_words,
)
from tests.errors import error_of


def test_vocabulary(tmp_path):
    file = tmp_path / "vocabulary.txt"
    file.write_bytes("</S>\r\ncat\n<UNK>\nŁódź\n\u2028\x85.\n<S>".encode())
    assert read_words(file) == ["</S>", "cat", "<UNK>", "Łódź", "\u2028\x85.", "<S>"]
    file.write_bytes(b"</S>\ncat \n<UNK>\t\n<S>\n")
    assert read_words(file) == ["</S>", "cat", "<UNK>", "<S>"]
    file.write_bytes(b"<S>\n</S>\n\n<UNK>\n")
    assert f"{file}, line 3" in error_of(ElmoError, read_words, file)
    file.write_bytes(b"<S>\n</S>\nc\xe9t\n<UNK>\n")
    assert error_of(ElmoError, read_words, file).startswith(f"{file}, line 3: the byte 0xe9 at offset 10")


def test_paths_and_urls(tmp_path, monkeypatch):
    monkeypatch.setenv("ALLENNLP_CACHE_ROOT", str(tmp_path))
    options = read_options(DEFAULT_OPTIONS)
    assert read_options(f"file://{DEFAULT_OPTIONS}") == read_options(options.to_json()) == options
    assert read_frozen_bilm(options, f"file://{DEFAULT_WEIGHTS}").num_layers == 3


def test_an_error_names_the_source():
    with pytest.raises(FileNotFoundError, match="no_such_file"):
        read_options("no_such_file")
    with pytest.raises(ElmoError, match=f"file://{DEFAULT_WEIGHTS}"):
        read_options(f"file://{DEFAULT_WEIGHTS}")


def test_without_what_fetches_urls(monkeypatch):
    monkeypatch.setitem(sys.modules, "cached_path", None)
    with pytest.raises(ElmoError, match=r"hf://a/b.*cached_path"):
        read_options("hf://a/b")
