import torch

from elmo_tasks.vectors import encoder as module
from elmo_tasks.vectors.encoder import BiLmEncoder
from tests.elmo.files import SENTENCES, VOCABULARY, batch, make_word_files, read_frozen
from tests.vectors.encoders import tiny_bilm


def test_rows_are_the_layers_their_average_and_the_mixes(tmp_path, monkeypatch):
    bilm = tiny_bilm(tmp_path)
    encoder = BiLmEncoder(bilm=bilm, mixes={"double": lambda layers: 2 * layers[1]})
    assert encoder.names == ["layer 0", "layer 1", "layer 2", "average", "double"]
    assert encoder.dim == 12
    sentences = SENTENCES * 3
    for positions in (10, 1000):
        monkeypatch.setattr(module, "POSITIONS", positions)
        found = list(encoder.encode(iter(sentences)))
        assert len(found) == len(sentences)
        for words, rows in zip(sentences, found, strict=True):
            assert rows.shape == (5, len(words), 12)
            if words:
                # (layers, tokens, dim)
                layers = bilm.encode(batch([words]))[:, 0]
                expected = torch.stack([*layers, sum(layers) / 3, layers[1] + layers[1]])
                assert torch.allclose(rows, expected, rtol=0, atol=1e-5)


def test_no_more_is_read_ahead_than_is_encoded_together(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POSITIONS", 8)
    read = []
    encoder = BiLmEncoder(bilm=tiny_bilm(tmp_path), mixes={})
    sentences = (read.append(number) or ["a", "b"] for number in range(100))
    next(encoder.encode(sentences))
    assert len(read) == 5


def test_items_come_with_their_vectors(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POSITIONS", 20)
    encoder = BiLmEncoder(bilm=tiny_bilm(tmp_path), mixes={})
    items = list(encoder.encode_items(enumerate(SENTENCES), lambda item: item[1]))
    assert [number for (number, _), _ in items] == list(range(len(SENTENCES)))
    for ((_, words), vectors), alone in zip(items, encoder.encode(SENTENCES), strict=True):
        assert vectors.shape[1] == len(words)
        assert torch.equal(vectors, alone)


def test_known_words(tmp_path):
    assert BiLmEncoder(bilm=tiny_bilm(tmp_path), mixes={}).known(["cat", "xyzzy"]).tolist() == [True, True]
    bilm = read_frozen(**make_word_files(tmp_path))
    assert BiLmEncoder(bilm=bilm, mixes={}).known(["cat", "xyzzy", VOCABULARY[9]]).tolist() == [
        True,
        False,
        True,
    ]


def test_an_occurrence_is_the_mean_of_its_tokens(tmp_path):
    vectors = torch.randn(4, 6, 12)
    found = BiLmEncoder(bilm=tiny_bilm(tmp_path), mixes={}).occurrence(vectors, 2, 4)
    assert torch.allclose(found, (vectors[:, 2] + vectors[:, 3]) / 2)
