from hashlib import blake2b

import numpy as np
import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model import characters
from elmo_tasks.elmo.model import characters as words
from elmo_tasks.elmo.model.characters import vocabulary, word_ids


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
    assert characters._hash.__wrapped__("cat") == 1


def test_vocabulary():
    assert vocabulary(enumerate(["</S>", "cat", "<UNK>", "<S>"], 1), where="text") == [
        "</S>",
        "cat",
        "<UNK>",
        "<S>",
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["<S>", "</S>", " ", "<UNK>"], "text, line 3: found an empty line, expected a word"),
        (
            ["<S>", "cat", "cat"],
            "text, line 3: found 'cat', which stands in line 2 too, expected each word once",
        ),
        (["<S>", "</S>"], "text: found no <UNK>, expected the lines <S>, </S>, <UNK>"),
        ([], "text: found no <S>, expected the lines <S>, </S>, <UNK>"),
    ],
)
def test_wrong_vocabulary(lines, expected):
    with pytest.raises(ElmoError) as caught:
        vocabulary(enumerate(lines, 1), where="text")
    assert str(caught.value) == expected
