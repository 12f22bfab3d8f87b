import random
from concurrent.futures import ThreadPoolExecutor

import torch

from elmo_tasks.elmo.inference.character_cnn import WordCache
from elmo_tasks.elmo.model.characters import character_ids


class Encoder:
    """The sum and the product of a word's ids; remembers how many words it was asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, words):
        self.asked.append(len(words))
        return torch.stack([words.sum(dim=1), words[:, 1].square()], dim=1).float()


def look_up(cache, encoder, words):
    ids = torch.tensor(character_ids(words))
    vectors, index = cache.vectors(ids, encoder)
    assert len(vectors) == len(set(words))
    assert torch.equal(vectors[index], Encoder()(ids))


def test_words_are_encoded_once():
    cache, encoder = WordCache(), Encoder()
    for text in ("the cat saw the dog", "the dog saw a cat", "a cat"):
        look_up(cache, encoder, text.split())
    assert encoder.asked == [4, 1]
    assert len(cache) == 5


def test_the_longest_unused_goes_first():
    cache, encoder = WordCache(capacity=3), Encoder()
    for text in ("a b c", "a", "d", "a c d", "b"):
        look_up(cache, encoder, text.split())
    # b went for d, then a for b: it was met before c and d
    assert encoder.asked == [3, 1, 1]
    look_up(cache, encoder, ["a"])
    assert encoder.asked == [3, 1, 1, 1]


def test_more_words_than_are_remembered():
    cache, encoder = WordCache(capacity=4), Encoder()
    for start in (0, 5, 2):
        look_up(cache, encoder, [f"w{number % 11}" for number in range(start, start + 9)])
        assert len(cache) == 4


def test_the_table_grows():
    cache, encoder = WordCache(capacity=5000), Encoder()
    for start in range(0, 6000, 700):
        look_up(cache, encoder, [f"w{number}" for number in range(start, start + 900)])
    assert len(cache) == 5000


def test_eight_threads_over_a_cache_that_is_too_small():
    cache, encoder = WordCache(capacity=40), Encoder()

    def read(seed):
        numbers = random.Random(seed)
        for _ in range(30):
            look_up(cache, encoder, [f"w{numbers.randrange(90)}" for _ in range(25)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(8)))
    assert len(cache) == 40
