import copy
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from elmo_tasks.common.packed_weights import pack
from elmo_tasks.elmo.inference import character_cnn
from elmo_tasks.elmo.inference.character_cnn import (
    FrozenCharacters,
    FrozenWords,
    JoinedCharacterCnn,
    WordCache,
    blocks_by_length,
)
from elmo_tasks.elmo.model import BiLm, BiLmOptions, CharacterOptions
from elmo_tasks.elmo.model.characters import PADDING_ID, character_ids, word_ids
from elmo_tasks.elmo.model.encoders import CharacterEncoder
from tests.elmo.files import VARIANTS, VOCABULARY, changed, make_word_files, random_bilm, read_bilm
from tests.elmo.inference.precisions import PRECISIONS, needs_bfloat16

WORDS = ["cat", "", "Łódź", "😀", "x" * 48, "y" * 60, "<S>", "</S>", "a", *map(str, range(90, 130))]
TEXT = ["the", "cat", "the", "", "x" * 60, "cat", "Łódź", "<S>"]
FILTERS = [((1, 32), (2, 32), (7, 64)), ((3, 5),), ((50, 3), (1, 2))]


def encoder(filters=FILTERS[0], activation="relu", n_highway=2, projection_dim=32):
    torch.manual_seed(3)
    options = CharacterOptions(filters=filters, dim=4, activation=activation, n_highway=n_highway)
    return CharacterEncoder(options=options, projection_dim=projection_dim).requires_grad_(False)


def packed_cnn(reference, precision="float32"):
    def product(weight, bias):
        packed = pack(weight, precision)
        return lambda rows: packed(rows, bias)

    return JoinedCharacterCnn(reference, product)


def ids(words):
    return torch.tensor(character_ids(words))


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize(
    "options",
    [{}, {"activation": "tanh", "n_highway": 0}, {"projection_dim": 5}, {"projection_dim": 128}],
)
def test_equals_the_model(filters, options):
    reference = encoder(filters, **options)
    plain = JoinedCharacterCnn(reference, lambda weight, bias: partial(F.linear, weight=weight, bias=bias))
    expected = reference(ids(WORDS))
    for cnn in (plain, packed_cnn(reference)):
        torch.testing.assert_close(cnn(ids(WORDS)), expected, atol=2e-6, rtol=1e-5)


@needs_bfloat16
def test_bfloat16_is_near():
    reference = encoder()
    difference = packed_cnn(reference, "bfloat16")(ids(WORDS)) - reference(ids(WORDS))
    assert 0 < difference.abs().max() < 0.05


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_word_has_the_same_bits_alone_and_beside_others(monkeypatch, precision, activation, threads):
    cnn = packed_cnn(encoder(activation=activation), precision)
    torch.set_num_threads(1)
    together = cnn(ids(WORDS))
    torch.set_num_threads(threads)
    assert torch.equal(cnn(ids(WORDS[::-1])), together.flip(0))
    for row, word in enumerate(WORDS):
        assert torch.equal(cnn(ids([word]))[0], together[row]), word
    monkeypatch.setattr(character_cnn, "WINDOWS_AT_ONCE", 30)
    assert torch.equal(cnn(ids(WORDS)), together)


def test_blocks_hold_few_windows():
    lengths = torch.tensor([2] * 500 + [50] * 30 + [10] * 200)
    words = torch.where(torch.arange(50) < lengths.unsqueeze(1), 7, PADDING_ID)
    blocks, order = blocks_by_length(words)
    assert torch.equal(torch.cat([block for block, _ in blocks]), words[order])
    for block, windows in blocks:
        # 50 characters leave no window behind the last
        assert windows == min(int((block != PADDING_ID).sum(dim=1).max()) + 1, 50)
        assert len(block) * windows <= character_cnn.WINDOWS_AT_ONCE


# The token layers


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
    ids = torch.tensor(character_ids(TEXT))
    expected = encoder(ids)
    # New words, words of the cache, and both
    for first, last in ((0, 4), (0, 4), (2, 8)):
        vectors, index = layer(ids[first:last])
        assert len(vectors) == len(set(TEXT[first:last]))
        torch.testing.assert_close(vectors[index], expected[first:last], atol=1e-6, rtol=1e-5)
    layer.clear_word_cache()
    vectors, index = layer(ids)
    torch.testing.assert_close(vectors[index], expected, atol=1e-6, rtol=1e-5)


def test_words_equal_the_model(tmp_path):
    encoder = read_bilm(**make_word_files(tmp_path)).token_encoder.requires_grad_(False)
    layer = FrozenWords(copy.deepcopy(encoder).to("meta"), encoder.state_dict())
    words = ["mat", "nowhere", "", "mat", *VOCABULARY, "elsewhere"]
    ids = torch.from_numpy(word_ids(words))
    vectors, index = layer(ids)
    assert torch.equal(vectors[index], encoder(ids))
    assert len(vectors) == len(VOCABULARY)
    layer.clear_word_cache()
    assert all(torch.equal(layer.weights()[name], weight) for name, weight in encoder.state_dict().items())


# The cache of words


class CountingEncoder:
    """Counts the words that it is asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, words):
        self.asked.append(len(words))
        return torch.stack([words.sum(dim=1), words[:, 1].square()], dim=1).float()


def look_up(cache, encoder, words):
    ids = torch.tensor(character_ids(words))
    vectors, index = cache.vectors(ids, encoder)
    assert len(vectors) == len(set(words))
    assert torch.equal(vectors[index], CountingEncoder()(ids))


def test_words_are_encoded_once():
    cache, encoder = WordCache(), CountingEncoder()
    for text in ("the cat saw the dog", "the dog saw a cat", "a cat"):
        look_up(cache, encoder, text.split())
    assert encoder.asked == [4, 1]
    assert len(cache) == 5


def test_more_words_than_are_remembered():
    cache, encoder = WordCache(capacity=4), CountingEncoder()
    for start in (0, 5, 2):
        look_up(cache, encoder, [f"w{number % 11}" for number in range(start, start + 9)])
        assert len(cache) == 4


def test_the_table_grows():
    cache, encoder = WordCache(capacity=5000), CountingEncoder()
    for start in range(0, 6000, 700):
        look_up(cache, encoder, [f"w{number}" for number in range(start, start + 900)])
    assert len(cache) == 5000


def test_eight_threads_over_a_cache_that_is_too_small():
    cache, encoder = WordCache(capacity=40), CountingEncoder()

    def read(seed):
        numbers = random.Random(seed)
        for _ in range(30):
            look_up(cache, encoder, [f"w{numbers.randrange(90)}" for _ in range(25)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(8)))
    assert len(cache) == 40
