import sys

import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.files import (
    DEFAULT_OPTIONS,
    DEFAULT_WEIGHTS,
    read_bilm,
    read_frozen_bilm,
    read_options,
    read_words,
)


def test_vocabulary(tmp_path):
    file = tmp_path / "vocabulary.txt"
    file.write_bytes("</S>\r\ncat\n<UNK>\nŁódź\n\u2028\x85.\n<S>".encode())
    assert read_words(file) == ["</S>", "cat", "<UNK>", "Łódź", "\u2028\x85.", "<S>"]
    file.write_bytes(b"</S>\ncat \n<UNK>\t\n<S>\n")
    assert read_words(file) == ["</S>", "cat", "<UNK>", "<S>"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"<S>\n</S>\n\n<UNK>\n", ", line 3: found an empty line, expected a word"),
        (b"<S>\n</S>\ncat\n<UNK>\ncat\n", ", line 5: found 'cat', which stands in line 3 too"),
        (b"<S>\n</S>\ncat\n", ": found no <UNK>, expected the lines <S>, </S>, <UNK>"),
        (b"", ": found no <S>, expected"),
        (b"<S>\n</S>\nc\xe9t\n<UNK>\n", ", line 3: found the byte 0xe9 at offset 10, expected UTF-8"),
    ],
)
def test_wrong_vocabulary(tmp_path, content, expected):
    file = tmp_path / "vocabulary.txt"
    file.write_bytes(content)
    with pytest.raises(ElmoError) as caught:
        read_words(file)
    assert f"{file}{expected}" in str(caught.value)


def test_paths_and_urls(tmp_path, monkeypatch):
    monkeypatch.setenv("ALLENNLP_CACHE_ROOT", str(tmp_path))
    options = read_options(DEFAULT_OPTIONS)
    assert read_options(f"file://{DEFAULT_OPTIONS}") == read_options(options.to_json()) == options
    assert read_frozen_bilm(options, f"file://{DEFAULT_WEIGHTS}").num_layers == 3


def test_an_error_names_the_source(tmp_path):
    with pytest.raises(FileNotFoundError, match="file no_such_file not found"):
        read_options("no_such_file")
    with pytest.raises(ElmoError, match=f"file://{DEFAULT_WEIGHTS}"):
        read_options(f"file://{DEFAULT_WEIGHTS}")


def test_without_what_fetches_urls(monkeypatch):
    monkeypatch.setitem(sys.modules, "cached_path", None)
    with pytest.raises(
        ElmoError, match=r"found the URL hf://a/b, expected a path: .* elmo_tasks\[allennlp\]"
    ):
        read_options("hf://a/b")


def test_a_bilm_to_be_trained_has_the_same_weights():
    options = read_options(DEFAULT_OPTIONS)
    trained, frozen = (
        read_bilm(options, DEFAULT_WEIGHTS, trainable=trainable) for trainable in (True, False)
    )
    weights = frozen.state_dict()
    assert {name: weight.shape for name, weight in weights.items()} == {
        name: weight.shape for name, weight in trained.state_dict().items()
    }
    assert all(weight.equal(weights[name]) for name, weight in trained.state_dict().items())
