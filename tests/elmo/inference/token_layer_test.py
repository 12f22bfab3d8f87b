import copy
from functools import partial

import pytest
import torch

from elmo_tasks.elmo.inference.character_cnn import FrozenCharacters, FrozenWords
from elmo_tasks.elmo.inference.packed_weights import pack
from elmo_tasks.elmo.model import BiLm, BiLmOptions
from elmo_tasks.elmo.model.characters import character_ids, word_ids
from tests.elmo.files import VARIANTS, VOCABULARY, changed, make_word_files, random_bilm, read_bilm
from tests.elmo.inference.precisions import PRECISIONS

WORDS = ["the", "cat", "the", "", "x" * 60, "cat", "Łódź", "<S>"]


def frozen_characters(changes, precision="float32"):
    """With the model's encoder."""
    encoder = random_bilm(**changes).token_encoder.requires_grad_(False)
    with torch.device("meta"):
        blueprint = BiLm(options=BiLmOptions.read(changed(**changes))).token_encoder
    weights = dict(encoder.state_dict())
    return FrozenCharacters(blueprint, weights, partial(pack, precision=precision)), encoder


@pytest.mark.parametrize("changes", VARIANTS)
def test_characters_equal_the_model(changes):
    layer, encoder = frozen_characters(changes)
    ids = torch.tensor(character_ids(WORDS))
    expected = encoder(ids)
    # New words, words of the cache, and both
    for first, last in ((0, 4), (0, 4), (2, 8)):
        vectors, index = layer(ids[first:last])
        assert len(vectors) == len(set(WORDS[first:last]))
        torch.testing.assert_close(vectors[index], expected[first:last], atol=1e-6, rtol=1e-5)
    layer.forget_words()
    vectors, index = layer(ids)
    torch.testing.assert_close(vectors[index], expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("changes", VARIANTS)
def test_weights_of_characters_bit_by_bit(changes, precision):
    layer, encoder = frozen_characters(changes, precision)
    weights = layer.weights()
    assert weights.keys() == encoder.state_dict().keys()
    assert all(torch.equal(weights[name], weight) for name, weight in encoder.state_dict().items())


def test_words_equal_the_model(tmp_path):
    encoder = read_bilm(**make_word_files(tmp_path)).token_encoder.requires_grad_(False)
    layer = FrozenWords(copy.deepcopy(encoder).to("meta"), encoder.state_dict())
    words = ["mat", "nowhere", "", "mat", *VOCABULARY, "elsewhere"]
    ids = torch.from_numpy(word_ids(words))
    vectors, index = layer(ids)
    assert torch.equal(vectors[index], encoder(ids))
    assert len(vectors) == len(VOCABULARY)
    layer.forget_words()
    assert all(torch.equal(layer.weights()[name], weight) for name, weight in encoder.state_dict().items())
