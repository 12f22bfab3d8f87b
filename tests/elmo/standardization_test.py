import pytest
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.export import standardize_tokens
from tests.elmo.files import NONEMPTY, make_word_files, random_bilm, read_bilm

TEXT = [["the", "cat", "sat"], ["the", "mat"], [], ["on", "the", "cat"]]


@pytest.mark.parametrize("reads", ["characters", "words"])
def test_token_layer_gets_mean_0_and_deviation_1_and_no_other_layer_changes(tmp_path, reads):
    bilm = random_bilm() if reads == "characters" else read_bilm(**make_word_files(tmp_path))
    bilm = bilm.double().requires_grad_(False)
    ids = bilm.token_encoder.padded_ids
    before = bilm.encode(ids(NONEMPTY))
    standardize_tokens(bilm, TEXT)
    tokens = bilm.token_encoder(ids([[word for words in TEXT for word in words]])[0])
    torch.testing.assert_close(tokens.mean(dim=0), torch.zeros(6).double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(tokens.std(dim=0, correction=0), torch.ones(6).double(), atol=1e-6, rtol=0)
    after = bilm.encode(ids(NONEMPTY))
    assert not torch.allclose(after[0], before[0], atol=1e-2)
    torch.testing.assert_close(after[1:], before[1:], atol=1e-9, rtol=0)


@pytest.mark.parametrize(("text", "words"), [([[], []], 0), ([["the", "the"], ["the"]], 1)])
def test_a_text_of_one_word_at_most(text, words):
    with pytest.raises(ElmoError, match=f"{words} distinct words"):
        standardize_tokens(random_bilm(), text)


def test_a_character_cnn_without_projection():
    with pytest.raises(ElmoError, match="no projection"):
        standardize_tokens(random_bilm(projection_dim=18), TEXT)
