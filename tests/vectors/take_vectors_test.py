import gzip
import logging

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.models.archival import archive_model, load_archive

from elmo_tasks.data.input_files import InputError
from elmo_tasks.vectors.text_format import take_vectors
from tests.elmo.files import OPTIONS

WORDS = ["<UNK>", "the", ".", "a\u00a0b", "mat", "\u0085"]
GLOVE = (
    "the 1 2e-1 -3\n. . . 7 7 7\n. 4 5 6\nThe 9 9 9\nthe 8 8 8\na\u00a0b 0 0 1\ndid he 5 5 5\n\u0085 1 1 1\n"
)
TAKEN = {"the": [1, 0.2, -3], ".": [4, 5, 6], "a\u00a0b": [0, 0, 1], "\u0085": [1, 1, 1]}


@pytest.mark.parametrize("header", ["", "8 3\n"], ids=["GloVe", "word2vec"])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_found_words_take_their_vectors(tmp_path, caplog, header, end, pack):
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
    ("content", "message"),
    [
        ("5 300\nthe 1 2 3\n", r"vectors, line 1: found 300 numbers, expected 3, the projection_dim"),
        ("of 1 2\nthe 1 2\n", r"vectors, line 2: found 2 numbers, expected 3"),
        ("the 1 2 3 4\n", r"vectors, line 1: found 4 numbers, expected 3"),
        ("the 1 2 x\n", r"vectors, line 1: found .*'x', expected 3 numbers"),
        ("The 1 2 3\n", r"vectors: found none of 6 words"),
        ("", r"vectors: found none of 6 words"),
    ],
)
def test_files_that_do_not_fit(tmp_path, content, message):
    (tmp_path / "vectors").write_text(content)
    with pytest.raises(InputError, match=message):
        take_vectors(torch.zeros(len(WORDS), 3), WORDS, str(tmp_path / "vectors"))


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
    place = vocab.get_token_index("the") - 1
    assert model.bilm.token_encoder.embedding[place].tolist() == [1, 2, 3, 4, 5, 6]
    Params(settings).to_file(str(tmp_path / "config.json"))
    vocab.save_to_files(str(tmp_path / "vocabulary"))
    torch.save(model.state_dict(), tmp_path / "best.th")
    archive_model(tmp_path)
    file.unlink()
    loaded = load_archive(tmp_path / "model.tar.gz").model
    assert torch.equal(loaded.bilm.token_encoder.embedding, model.bilm.token_encoder.embedding)


def test_a_bilm_of_characters_has_no_word_vectors():
    with pytest.raises(
        ConfigurationError, match=r"found input_vectors, x\.txt, but the biLM reads characters"
    ):
        Model.from_params(
            Params(config(options=OPTIONS, input_vectors="x.txt")), vocab=Vocabulary({"tokens": {"a": 1}})
        )
