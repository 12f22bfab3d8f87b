from hashlib import blake2b

import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.data import Batch, Instance, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import TextField

from elmo_tasks.data.input_files import InputError
from elmo_tasks.elmo import ElmoWordIndexer, words
from elmo_tasks.elmo.words import padded_word_ids, read_words, word_ids


def test_ids_are_hashes():
    ids = word_ids(["cat", "Łódź", "", "\udfff", "cat", "<S>"])
    assert ids.dtype == np.int64
    assert (ids > 0).all()
    assert len(set(ids.tolist())) == 5
    assert ids[0] == ids[4]
    assert ids[0] == int.from_bytes(blake2b(b"cat", digest_size=8).digest(), "little") % (1 << 63)
    assert word_ids([]).shape == (0,)


@pytest.mark.parametrize("digest", [b"\0" * 8, b"\0" * 7 + b"\x80"])
def test_no_word_has_the_id_of_no_word(monkeypatch, digest):
    monkeypatch.setattr(words, "blake2b", lambda *_, **__: type("Hash", (), {"digest": lambda _: digest})())
    assert words._hash.__wrapped__("cat") == 1


def test_indexer_in_a_batch():
    indexer = TokenIndexer.from_params(Params({"type": "elmo_word_ids"}))
    sentences = [["The", "cat"], ["Yes"]]
    batch = Batch(
        [Instance({"tokens": TextField(list(map(Token, words)), {"elmo": indexer})}) for words in sentences]
    )
    batch.index_instances(Vocabulary())
    tensor = batch.as_tensor_dict()["tokens"]["elmo"]["word_ids"]
    assert tensor.dtype == torch.int64
    assert torch.equal(tensor, padded_word_ids(sentences))
    assert tensor.tolist() == [word_ids(["The", "cat"]).tolist(), [*word_ids(["Yes"]).tolist(), 0]]


def test_indexer_of_an_empty_field():
    field = TextField([], {"elmo": ElmoWordIndexer()}).empty_field()
    field.index(Vocabulary())
    assert field.as_tensor(field.get_padding_lengths())["elmo"]["word_ids"].shape == (0,)


def test_vocabulary(tmp_path):
    file = tmp_path / "vocabulary.txt"
    file.write_bytes("</S>\r\ncat\n<UNK>\nŁódź\n\u2028\x85.\n<S>".encode())
    assert read_words(file) == ["</S>", "cat", "<UNK>", "Łódź", "\u2028\x85.", "<S>"]


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
    with pytest.raises(InputError) as caught:
        read_words(file)
    assert f"{file}{expected}" in str(caught.value)
