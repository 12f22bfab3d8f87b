import gzip
import logging

import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.models.archival import archive_model, load_archive

from elmo_tasks.data.input_files import InputError
from elmo_tasks.vectors import VectorTable, write_vectors
from elmo_tasks.vectors.files import read_vectors, take_vectors
from tests.elmo.files import OPTIONS
from tests.errors import input_error

WORDS = ["<UNK>", "the", ".", "a\u00a0b", "mat", "\u0085"]
GLOVE = (
    "the 1 2e-1 -3\n. . . 7 7 7\n. 4 5 6\nThe 9 9 9\nthe 8 8 8\na\u00a0b 0 0 1\ndid he 5 5 5\n\u0085 1 1 1\n"
)
TAKEN = {"the": [1, 0.2, -3], ".": [4, 5, 6], "a\u00a0b": [0, 0, 1], "\u0085": [1, 1, 1]}


@pytest.mark.parametrize("header", ["", "4 3\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_layouts(tmp_path, header, packed, caplog):
    text = f"{header}the 1 -2 3e-1\nNew York 1 1 1\n1,000 4 5 6 \n7 8 9 0\n\n"
    (tmp_path / "vectors").write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    words, vectors = read_vectors(str(tmp_path / "vectors"))
    assert words == ["the", "1,000", "7"]
    assert vectors == pytest.approx(np.array([[1, -2, 0.3], [4, 5, 6], [8, 9, 0]]))
    assert "1 words with blanks" in caplog.text


@pytest.mark.parametrize("word", ["New York", "World War 2"])
def test_the_first_line_says_where_a_word_with_blanks_ends(tmp_path, caplog, word):
    (tmp_path / "vectors").write_text(f"2 3\n{word} 1 2 3\ncat 1 2 4\n")
    assert read_vectors(str(tmp_path / "vectors")).words == ["cat"]
    assert "1 words with blanks" in caplog.text


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "vectors"),
        ("2 3\n", "vectors"),
        ("3 2\nthe 1 2\ncat 1 2\n", "vectors"),
        ("the 1 2\ncat 1\n", "line 2"),
        ("the 1 2\ncat 1 2 3\n", "line 2"),
        ("the 1 2\ncat 1 x\n", "line 2"),
        ("1 2\nthe 1 2 3\n", "line 2"),
        ("the 1 inf\n", "line 1"),
    ],
)
def test_damaged_files(tmp_path, text, place):
    assert place in input_error(read_vectors, tmp_path / "vectors", text)


def test_files_of_two_sizes(tmp_path):
    (tmp_path / "a").write_text("2 4\na 1 1 1 1\nb 2 2 2 2\n")
    (tmp_path / "b").write_text("2 2\nc 3 3\nd 4 4\n")
    with pytest.raises(InputError, match="b, line 2"):
        read_vectors(str(tmp_path))


@pytest.mark.parametrize("header", ["", "8 3\n"], ids=["GloVe", "word2vec"])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_words_take_their_vectors(tmp_path, caplog, header, end, pack):
    file = tmp_path / "vectors"
    file.write_bytes(pack((header + GLOVE).replace("\n", end).encode()))
    table = torch.randn(len(WORDS), 3)
    expected = table.clone()
    for word, vector in TAKEN.items():
        expected[WORDS.index(word)] = torch.tensor(vector)
    with caplog.at_level(logging.INFO):
        take_vectors(table, WORDS, str(file))
    assert torch.equal(table, expected)
    assert "vectors of 4 of 6 words" in caplog.text


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("of 1 2\nthe 1 2\n", "vectors, line 2"),
        ("the 1 2 3 4\n", "vectors, line 1"),
        ("the 1 2 x\n", "vectors, line 1"),
        ("The 1 2 3\n", "vectors"),
    ],
)
def test_files_that_do_not_fit(tmp_path, text, place):
    table = torch.zeros(len(WORDS), 3)
    assert place in input_error(lambda path: take_vectors(table, WORDS, path), tmp_path / "vectors", text)


def config(**changes):
    lstm = {"lstm": OPTIONS["lstm"]}
    return {"type": "elmo_bilm", "options": lstm, "softmax": {"type": "full"}, **changes}


def test_archive_does_not_need_the_file(tmp_path):
    counts = {"tokens": {"<S>": 3, "</S>": 3, "the": 2, "mat": 1}}
    vocab = Vocabulary(counts)
    file = tmp_path / "vectors"
    file.write_text("the 1 2 3 4 5 6\n")
    settings = {
        "model": config(input_vectors=str(file)),
        "dataset_reader": {"type": "elmo_bilm", "input": "words"},
    }
    model = Model.from_params(Params(settings).duplicate()["model"], vocab=vocab)
    row = vocab.get_token_index("the") - 1
    assert model.bilm.token_encoder.embedding[row].tolist() == [1, 2, 3, 4, 5, 6]
    Params(settings).to_file(str(tmp_path / "config.json"))
    vocab.save_to_files(str(tmp_path / "vocabulary"))
    torch.save(model.state_dict(), tmp_path / "best.th")
    archive_model(tmp_path)
    file.unlink()
    loaded = load_archive(tmp_path / "model.tar.gz").model
    assert torch.equal(loaded.bilm.token_encoder.embedding, model.bilm.token_encoder.embedding)


def test_a_bilm_of_characters_has_no_word_vectors():
    settings = Params(config(options=OPTIONS, input_vectors="x.txt"))
    with pytest.raises(ConfigurationError, match="input_vectors"):
        Model.from_params(settings, vocab=Vocabulary({"tokens": {"a": 1}}))


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.txt.gz"])
def test_written_tables(tmp_path, name):
    path = tmp_path / name
    table = VectorTable(["the", "한국어", "1,000"], np.float32([[1, -2], [0.1, 3e-9], [1234567, 1 / 3]]))
    write_vectors(path, table)
    content = path.read_bytes()
    text = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
    assert text.startswith("3 2\nthe 1 -2\n한국어 0.1 3e-09\n")
    read = read_vectors(str(path))
    assert read.words == table.words
    assert read.vectors == pytest.approx(table.vectors, rel=1e-6)
    (tmp_path / "again").mkdir()
    write_vectors(tmp_path / "again" / name, table)
    assert (tmp_path / "again" / name).read_bytes() == content
