import pytest
import torch

from elmo_tasks.elmo.model import BiLmOptions
from elmo_tasks.elmo.model.encoders import CharacterEncoder, TokenEncoder, WordEncoder
from tests.elmo.files import OPTIONS, SENTENCES, VOCABULARY


def characters() -> CharacterEncoder:
    return CharacterEncoder(options=BiLmOptions.read(OPTIONS).tokens, projection_dim=6)


def words() -> WordEncoder:
    options = BiLmOptions.read({"lstm": OPTIONS["lstm"], "n_tokens_vocab": len(VOCABULARY)})
    encoder = WordEncoder(options=options.tokens, projection_dim=6)
    encoder.set_vocabulary(VOCABULARY)
    return encoder


@pytest.fixture(params=[characters, words])
def encoder(request) -> TokenEncoder:
    torch.manual_seed(1)
    return request.param()


def test_where_there_are_words(encoder):
    for sentences in ([*SENTENCES, ["a", ""]], [["a"]], [[], []]):
        ids = encoder.padded_ids(sentences)
        lengths = torch.tensor([len(words) for words in sentences])
        assert ids.shape[:2] == (len(sentences), lengths.max())
        assert torch.equal(encoder.present(ids), torch.arange(ids.size(1)) < lengths.unsqueeze(1))
        for row, words in zip(ids, sentences, strict=True):
            assert row[: len(words)].tolist() == encoder.ids(words).tolist()
        assert not ids[~encoder.present(ids)].any()


def test_a_word_has_one_vector_wherever_it_stands(encoder):
    first, second = encoder.padded_ids([["cat", "on", "mat"], ["mat", "cat"]])
    vectors = encoder(torch.cat([first, second[:2]]))
    assert vectors.shape == (5, 6)
    torch.testing.assert_close(vectors[[2, 0]], vectors[[3, 4]])
    assert not torch.allclose(vectors[0], vectors[1], atol=1e-2)


def test_ids_of_the_marks(encoder):
    """In 64 bits, no part of a state dict, and where the encoder is."""
    assert torch.equal(encoder.bos_eos_ids, encoder.padded_ids([["<S>", "</S>"]])[0].long())
    assert encoder.bos_eos_ids.dtype == torch.int64
    assert "bos_eos_ids" not in encoder.state_dict()
    assert encoder.to("meta").bos_eos_ids.is_meta
