import functools

import pytest
import torch
from torch.nn import functional as F

from elmo_tasks.elmo.inference import character_cnn
from elmo_tasks.elmo.inference.character_cnn import CharacterCnn, blocks_of_like_length
from elmo_tasks.elmo.inference.packed_weights import pack
from elmo_tasks.elmo.model import CharacterOptions
from elmo_tasks.elmo.model.characters import FILLING, character_ids
from elmo_tasks.elmo.model.encoders import CharacterEncoder
from tests.elmo.inference.precisions import PRECISIONS, needs_bfloat16

WORDS = ["cat", "", "Łódź", "😀", "x" * 48, "y" * 60, "<S>", "</S>", "a", *map(str, range(90, 130))]
FILTERS = [((1, 32), (2, 32), (7, 64)), ((3, 5),), ((50, 3), (1, 2))]


def encoder(filters=FILTERS[0], activation="relu", n_highway=2, projection_dim=32):
    torch.manual_seed(3)
    options = CharacterOptions(filters=filters, dim=4, activation=activation, n_highway=n_highway)
    return CharacterEncoder(options=options, projection_dim=projection_dim).requires_grad_(False)


def packed_cnn(reference, precision="float32"):
    def product(weight, bias):
        packed = pack(weight, precision)
        return lambda rows: packed(rows, bias)

    return CharacterCnn(reference, product)


def ids(words):
    return torch.tensor(character_ids(words))


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize(
    "options",
    [{}, {"activation": "tanh", "n_highway": 0}, {"projection_dim": 5}, {"projection_dim": 128}],
)
def test_equals_the_model(filters, options):
    reference = encoder(filters, **options)
    plain = CharacterCnn(
        reference, lambda weight, bias: functools.partial(F.linear, weight=weight, bias=bias)
    )
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
    words = torch.where(torch.arange(50) < lengths.unsqueeze(1), 7, FILLING)
    blocks, order = blocks_of_like_length(words)
    assert torch.equal(torch.cat([block for block, _ in blocks]), words[order])
    for block, windows in blocks:
        # 50 characters leave no window behind the last
        assert windows == min(int((block != FILLING).sum(dim=1).max()) + 1, 50)
        assert len(block) * windows <= character_cnn.WINDOWS_AT_ONCE
