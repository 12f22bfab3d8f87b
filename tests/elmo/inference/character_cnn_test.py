import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from elmo_tasks.common.packed_weights import pack
from elmo_tasks.elmo.inference import character_cnn
from elmo_tasks.elmo.inference.character_cnn import JoinedCharacterCnn, WordCache
from elmo_tasks.elmo.model import CharacterOptions
from elmo_tasks.elmo.model.characters import character_ids
from elmo_tasks.elmo.model.encoders import CharacterEncoder
from tests.elmo.inference.precisions import PRECISIONS

WORDS = ["cat", "", "Łódź", "😀", "x" * 48, "y" * 60, "<S>", "</S>", "a", *map(str, range(90, 130))]
FILTERS = [((1, 32), (2, 32), (7, 64)), ((3, 5),), ((50, 3), (1, 2))]


def encoder(filters=FILTERS[0], activation="relu", n_highway=2, projection_dim=32):
    torch.manual_seed(3)
    options = CharacterOptions(filters=filters, dim=4, activation=activation, n_highway=n_highway)
    return CharacterEncoder(options=options, projection_dim=projection_dim).requires_grad_(False)


def packed_cnn(reference, precision="float32"):
    def product(weight, bias):
        return pack(weight, bias, precision=precision)

    return JoinedCharacterCnn(reference, product)


def ids(words):
    return torch.tensor(character_ids(words))


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize(
    "options", [{}, {"activation": "tanh", "n_highway": 0}, {"projection_dim": 5}, {"projection_dim": 128}]
)
def test_equals_the_model(filters, options):
    reference = encoder(filters, **options)
    plain = JoinedCharacterCnn(reference, lambda weight, bias: partial(F.linear, weight=weight, bias=bias))
    expected = reference(ids(WORDS))
    for cnn in (plain, packed_cnn(reference)):
        torch.testing.assert_close(cnn(ids(WORDS)), expected, atol=2e-6, rtol=1e-5)


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


def test_eight_threads_over_a_cache_that_is_too_small():
    cache, encoder = WordCache(capacity=40), CountingEncoder()

    def read(seed):
        numbers = random.Random(seed)
        for _ in range(30):
            look_up(cache, encoder, [f"w{numbers.randrange(90)}" for _ in range(25)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(8)))
    assert len(cache) == 40
