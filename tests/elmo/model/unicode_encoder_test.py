"""Against words that are looked up one by one; `many_langs_test.py` compares with the original."""

import pytest
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model import BiLm
from elmo_tasks.elmo.model import encoders as unicode_encoder
from elmo_tasks.elmo.model.characters import unicode_ids
from elmo_tasks.elmo.model.encoders import character_lookup, word_lookup
from elmo_tasks.elmo.model.options import BiLmOptions
from elmo_tasks.elmo.model.weight_file import write_weights
from tests.elmo.files import PLACED, SENTENCES, changed, frozen, random_bilm, trained

MARKS = ["<bos>", "<eos>", "<bow>", "<eow>", "<pad>", "<oov>"]
CHARACTERS = {entry: row for row, entry in enumerate([*"theca", "oov", *"so한국어", *MARKS])}
WORDS = {"cat": 3, "<oov>": 1, "<pad>": 0, "한국어": 4, "a" * 60: 5, "<bos>": 2}


@pytest.fixture(scope="module")
def bilm():
    torch.manual_seed(3)
    more = {"encoding": "unicode", "n_characters": len(CHARACTERS), "n_words": 6, "word_dim": 3}
    options = changed()
    options["char_cnn"] |= more
    bilm = BiLm(options=BiLmOptions.read(options))
    encoder = bilm.token_encoder
    encoder.characters.load_state_dict(character_lookup(CHARACTERS, number=len(CHARACTERS)))
    encoder.words.lookup.load_state_dict(word_lookup(WORDS, number=6, length=50))
    return bilm


def test_rows(bilm):
    encoder = bilm.token_encoder
    ids = torch.tensor(unicode_ids(["cat!", "<bos>"]))
    rows = [CHARACTERS[entry] for entry in ("<eow>", "c", "a", "t", "<oov>", "<bow>", "<pad>")]
    assert encoder.characters(ids)[0, :7].tolist() == rows
    assert encoder.characters(ids)[1, :3].tolist() == [CHARACTERS[e] for e in ("<eow>", "<bos>", "<bow>")]
    words = ["cat", "한국어", "dog", "a" * 60, "<bos>", "<pad>"]
    table = encoder.words.embedding[[3, 4, 1, 1, 2, 0]]
    assert torch.equal(encoder.words(torch.tensor(unicode_ids(words))), table)


@pytest.mark.parametrize("make", [frozen, trained])
def test_what_runs_it_fast(bilm, make):
    ids = bilm.token_encoder.padded_ids(SENTENCES)
    fast = make(bilm)
    torch.testing.assert_close(fast.encode(ids), bilm.encode(ids), atol=1e-5, rtol=0)
    fast.eval()
    state, reference_state = None, None
    for sentences in (PLACED, SENTENCES[: len(PLACED)]):
        ids = bilm.token_encoder.padded_ids(sentences)
        layers, state = fast(ids, state)
        expected, reference_state = bilm(ids, reference_state)
        torch.testing.assert_close(layers, expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(state, reference_state, atol=1e-5, rtol=0)


def test_gradients(bilm):
    ids = bilm.token_encoder.padded_ids(SENTENCES)
    fast = trained(bilm)
    for each in (fast, bilm):
        each.zero_grad()
        each.encode(ids).square().sum().backward()
    for (name, ours), expected in zip(fast.named_parameters(), bilm.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, expected.grad, atol=1e-3, rtol=1e-3, msg=name)


def test_ids_of_bytes_are_refused(bilm):
    ids = bilm.token_encoder.padded_ids(PLACED)
    for each in (bilm, frozen(bilm), trained(bilm)):
        with pytest.raises(ElmoError) as caught:
            each.encode(ids.short())
        message = "the biLM reads unicode_ids: found ids of type torch.int16, expected torch.int32"
        assert str(caught.value) == message
        with pytest.raises(ElmoError, match=r"expected \('batch', 'tokens', 50\)"):
            each.encode(ids[..., 0])


def test_ids_of_unicode_characters_are_refused(bilm):
    """By a biLM of bytes, whose ids have the same shape; those of AllenNLP have 64 bits."""
    ids = bilm.token_encoder.padded_ids([["Ann"]])
    of_bytes = random_bilm()
    for each in (of_bytes, frozen(of_bytes), trained(of_bytes)):
        each.encode(of_bytes.padded_ids([["Ann"]]).long())
        with pytest.raises(ElmoError, match=r"found ids of type torch\.int32, expected torch\.int16 or "):
            each.encode(ids)


def test_official_layout_has_no_place_for_it(bilm, tmp_path):
    with pytest.raises(ElmoError, match="the official layout has no place for dictionaries"):
        write_weights(tmp_path / "w.hdf5", bilm.options, bilm.state_dict())


def test_words_with_one_key_are_refused(monkeypatch):
    monkeypatch.setattr(unicode_encoder, "row_keys", lambda ids: torch.zeros(len(ids), dtype=torch.long))
    with pytest.raises(ElmoError, match=r"'cat' and '<oov>' in the dictionary have the same id"):
        word_lookup(WORDS, number=6, length=50)
